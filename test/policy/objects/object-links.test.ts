import test from 'ava'
import { linkToken, type ObjectLink, readLinkToken } from '../../../policy/objects/object-links.ts'
import { readVisit, visitSeconds, visitValue } from '../../../policy/objects/share-visits.ts'
import { sealKeys } from '../../../policy/seal.ts'

const keys = sealKeys('ab'.repeat(32))
const now = new Date('2030-01-01T00:00:00Z')
const link: ObjectLink = {
  id: 'prv/123456789012345678/a/b.png',
  birth: 'c'.repeat(32),
  expires: now.getTime() / 1000 + 60,
  disposition: 'attachment',
  filename: 'ünï.png',
}
const token = linkToken(keys, link)
const at = (seconds: number) => new Date(now.getTime() + seconds * 1000)

test('a token decodes to its link until it expires', t => {
  t.deepEqual(readLinkToken(keys, token, now), link)
  t.deepEqual(readLinkToken(keys, token, at(59)), link)
  t.is(readLinkToken(keys, token, at(60)), null)
})

test('a change of any field with the old signature is refused', t => {
  const [said = '', signature = ''] = token.split('.')
  const fields: unknown[] = JSON.parse(Buffer.from(said, 'base64url').toString())
  t.is(fields.length, 7)
  const others = [2, 2, 'prv/123456789012345678/a/c.png', 'd'.repeat(32), link.expires + 1, 'inline', 'other.png']
  for (const [n, other] of others.entries()) {
    const changed = Buffer.from(JSON.stringify(fields.with(n, other))).toString('base64url')
    t.is(readLinkToken(keys, `${changed}.${signature}`, now), null, String(other))
  }
})

test('a change of any character is refused, and so is every other text', t => {
  for (let n = 0; n < token.length; n++) {
    const changed = token.slice(0, n) + (token[n] === 'x' ? 'y' : 'x') + token.slice(n + 1)
    t.is(readLinkToken(keys, changed, now), null, changed)
  }
  for (const other of ['', '.', 'x', `${token}.`, `${token}.x`, `${token}=`, 'bnVsbA.x', 'MQ.x', 'x'.repeat(10_000)])
    t.is(readLinkToken(keys, other, now), null, other)
})

test('added keys sign new links; links of a removed key are invalid', t => {
  const rotated = sealKeys('ab'.repeat(32), `2:${'12'.repeat(32)}`)
  t.deepEqual(readLinkToken(rotated, token, now), link)
  t.deepEqual(readLinkToken(rotated, linkToken(rotated, link), now), link)
  t.is(readLinkToken(keys, linkToken(rotated, link), now), null)
  t.is(readLinkToken(sealKeys('cd'.repeat(32)), token, now), null)
})

test('the cookie of a visit is valid for its share, for a day, and cannot be forged', t => {
  const secret = Buffer.alloc(32, 1)
  const value = visitValue(secret, 'share1', { counted: 'g1' }, now)
  const read = (cookies: string, share = 'share1', when = now) => readVisit(secret, share, cookies, when)
  t.deepEqual(read(`share=${value}`), { counted: 'g1' })
  t.deepEqual(read(`other=1; share=x; share=${value}`), { counted: 'g1' })
  t.deepEqual(read(`share=${visitValue(secret, 'share1', { counted: null }, now)}`), { counted: null })
  t.deepEqual(read(`share=${value}`, 'share1', at(visitSeconds - 1)), { counted: 'g1' })
  t.is(read(`share=${value}`, 'share1', at(visitSeconds)), null)
  t.is(read(`share=${value}`, 'share2'), null)
  t.is(read(`share=${value.replace('g1', 'g2')}`), null)
  t.is(readVisit(Buffer.alloc(32, 2), 'share1', `share=${value}`, now), null)
  t.is(readVisit(secret, 'share1', undefined, now), null)
})
