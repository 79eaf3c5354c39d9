import test from 'ava'
import { rangeOf } from '../../../lib/byte-range.ts'
import { expiryOf, linkKey, linkPath, linkSeconds, linkSecret, readLink } from '../../../policy/apps/snapshot-links.ts'

const secret = linkSecret('ab'.repeat(32))
const snapshot = {
  kind: 'applications',
  ownerId: '123456789012345678',
  name: `${'a'.repeat(24)}_javascript_manual`,
  version: 'v'.repeat(32),
} as const
const made = new Date('2030-01-01T00:00:00.900Z')
const url = `${linkPath(snapshot)}?${linkKey(secret, snapshot, expiryOf(made))}`
const at = (seconds: number) => new Date(made.getTime() + seconds * 1000)

test('a link works for thirty days and not a second longer', t => {
  t.deepEqual(readLink(secret, url, made), snapshot)
  t.deepEqual(readLink(secret, url, at(linkSeconds - 2)), snapshot)
  t.is(readLink(secret, url, at(linkSeconds)), null)
})

test('the fields may be in any order, each once', t => {
  const [path, query = ''] = url.split('?')
  t.deepEqual(readLink(secret, `${path}?${query.split('&').reverse().join('&')}`, made), snapshot)
  t.is(readLink(secret, `${url}&Expires=1`, made), null)
  for (const field of query.split('&')) t.is(readLink(secret, url.replace(field, ''), made), null, field)
})

test('a change of any character, or another installation’s key, is refused', t => {
  for (let n = 0; n < url.length; n++) {
    const other = url[n] === 'x' ? 'y' : 'x'
    const changed = url.slice(0, n) + other + url.slice(n + 1)
    t.is(readLink(secret, changed, made), null, changed)
  }
  t.is(readLink(linkSecret('cd'.repeat(32)), url, made), null)
})

for (const [header, size, range] of [
  [undefined, 10, null],
  ['bytes=0-3', 10, { from: 0, to: 3 }],
  ['bytes=4-', 10, { from: 4, to: 9 }],
  ['bytes=4-99', 10, { from: 4, to: 9 }],
  ['bytes=-3', 10, { from: 7, to: 9 }],
  ['bytes=-30', 10, { from: 0, to: 9 }],
  ['bytes=10-', 10, 'beyond'],
  ['bytes=-0', 10, 'beyond'],
  ['bytes=0-', 0, 'beyond'],
  ['bytes=5-4', 10, null],
  ['bytes=0-1,3-4', 10, null],
  ['bytes=-', 10, null],
  ['items=0-1', 10, null],
] as const)
  test(`a range of ${size} bytes: ${header}`, t => t.deepEqual(rangeOf(header, size), range))
