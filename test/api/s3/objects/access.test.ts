import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { revokeKey, setBlocked } from '../../../../db/accounts/accounts.ts'
import { saveRules } from '../../../../db/objects/blob-rules.ts'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { GiB } from '../../../../lib/bytes.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { rule } from '../../../kit/objects/upkeep.ts'
import { answerOf, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const copied = { headers: { 'x-amz-copy-source': 'private/k' } }

test('a read-only key can read and nothing else', async t => {
  const ana = await api().makeUser()
  await (await wireOf(api(), ana)).send('PUT', '/private/k', { body: 'x' })
  const { key } = await api().makeKey(ana, { scopes: ['blob:read'] })
  const wire = await wireOf(api(), ana, key)
  for (const target of ['/private/k', '/private/k?tagging', '/private'])
    t.is((await wire.send('GET', target)).status, 200)
  for (const [method, target, init] of [
    ['PUT', '/private/k', { body: 'y' }],
    ['PUT', '/private/k?tagging', {}],
    ['PUT', '/private/to', copied],
    ['DELETE', '/private/k', {}],
    ['DELETE', '/private/k?tagging', {}],
    ['POST', '/private?delete', {}],
    ['POST', '/private/k?uploads', {}],
  ] as const) {
    const { status, code } = await wire.send(method, target, init)
    t.deepEqual([status, code], [403, 'AccessDenied'], `${method} ${target}`)
  }
  t.is((await wire.send('GET', '/private/k')).text, 'x')
})

test('a key that is limited to prefixes can access nothing else', async t => {
  const ana = await api().makeUser()
  const own = await wireOf(api(), ana)
  for (const key of ['a/k', 'b/k']) await own.send('PUT', `/private/${key}`, { body: key })
  const { key } = await api().makeKey(ana, { scopes: ['blob:read', 'blob:write'], prefixes: ['a/'] })
  const wire = await wireOf(api(), ana, key)
  const copyOf = (source: string) => ({ headers: { 'x-amz-copy-source': source } })
  t.is((await wire.send('GET', '/private/a/k')).text, 'a/k')
  t.is((await wire.send('PUT', '/private/a/new', { body: 'x' })).status, 200)
  t.is((await wire.send('PUT', '/private/a/to', copyOf('private/a/k'))).status, 200)
  for (const [method, target, init] of [
    ['GET', '/private/b/k', {}],
    ['GET', '/private/b/k?attributes', { headers: { 'x-amz-object-attributes': 'ETag' } }],
    ['PUT', '/private/b/k', { body: 'x' }],
    ['PUT', '/private/a', { body: 'x' }],
    ['PUT', '/private/ab/k', { body: 'x' }],
    ['DELETE', '/private/b/k', {}],
    ['GET', '/private/b/k?tagging', {}],
    ['PUT', '/private/a/to', copyOf('private/b/k')],
    ['PUT', '/private/b/to', copyOf('private/a/k')],
  ] as const)
    t.is((await wire.send(method, target, init)).code, 'AccessDenied', `${method} ${target}`)
  const body = '<Delete><Object><Key>a/k</Key></Object><Object><Key>b/k</Key></Object></Delete>'
  const { text } = await wire.send('POST', '/private?delete', { body })
  t.regex(text, /<Deleted><Key>a\/k<\/Key><\/Deleted><Error><Key>b\/k<\/Key><Code>AccessDenied<\/Code>/)
  const left = await api().db('objects').where({ owner_id: ana.id }).orderBy('key').pluck('key')
  t.deepEqual(left, ['a/new', 'a/to', 'b/k'])
})

test('credentials of a revoked key or a blocked account are refused within a second', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const wires = [await wireOf(api(), ana), await wireOf(api(), bob)]
  for (const wire of wires) t.is((await wire.send('PUT', '/private/k', { body: 'x' })).status, 200)
  await revokeKey(api().db, ana.keyId)
  await setBlocked(api().db, bob.id, true)
  await sleep(1000)
  for (const wire of wires) {
    const { status, code } = await wire.send('GET', '/private/k')
    t.deepEqual([status, code], [403, 'InvalidAccessKeyId'])
  }
})

test('a body is not stored if its key is revoked, or its account blocked, while it arrives', async t => {
  for (const size of [10, 100_000])
    for (const end of ['revoked', 'blocked']) {
      const ana = await api().makeUser()
      const wire = await wireOf(api(), ana)
      const body = Buffer.alloc(size, 'x')
      const sending = wire.open('PUT', '/private/k', { body, headers: { expect: '100-continue' } })
      const answer = answerOf(sending)
      await new Promise(resolve => sending.once('continue', resolve))
      sending.write(body.subarray(1))
      if (end === 'revoked') await revokeKey(api().db, ana.keyId)
      else await setBlocked(api().db, ana.id, true)
      await sleep(1100) // after a second the credential is checked again
      sending.end(body.subarray(0, 1))
      const { status, code } = await answer
      t.deepEqual([status, code], [403, 'InvalidAccessKeyId'], `${end} ${size}`)
      t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
      t.deepEqual(
        await api()
          .db('blob_leases')
          .where({ subject: `upload/${ana.id}` }),
        [],
      )
    }
})

test('an account whose plan became free cannot use the gateway', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/k', { body: 'x' })
  await api().db('users').where({ id: ana.id }).update({ plan: 'free' })
  await comesTrue(async () => (await wire.send('GET', '/private/k')).status === 403)
  for (const [method, target] of [
    ['GET', '/private/k'],
    ['PUT', '/private/k'],
    ['DELETE', '/private/k'],
    ['GET', '/'],
  ] as const)
    t.is((await wire.send(method, target)).code, 'AccessDenied', `${method} ${target}`)
})

/** An account with 5 GB of storage, of which `left` bytes are free. */
async function nearlyFull(left: number): Promise<TestUser> {
  const user = await api().makeUser({ plan: 'hobby-1' })
  await api()
    .db('blob_usage')
    .insert({ owner_id: user.id, objects: 1, bytes: 5 * GiB - left })
  return user
}

test('the storage of the plan can be filled to the last byte and no further', async t => {
  const ana = await nearlyFull(10)
  const wire = await wireOf(api(), ana)
  const put = (key: string, bytes: number) => wire.send('PUT', `/private/${key}`, { body: 'x'.repeat(bytes) })
  const over = await put('k', 11)
  t.deepEqual([over.status, over.code], [403, 'QuotaExceeded'])
  t.is((await put('k', 10)).status, 200)
  t.is((await put('other', 1)).code, 'QuotaExceeded')
  t.is((await put('other', 0)).status, 200)
  t.is((await put('k', 10)).status, 200, 'one object replaces another')
  t.is((await put('k', 11)).code, 'QuotaExceeded')
  t.is((await wire.send('PUT', '/private/to', copied)).code, 'QuotaExceeded')
  t.is((await put('k', 5)).status, 200)
  t.is((await wire.send('PUT', '/private/to', copied)).status, 200)
  t.is((await readUsage(api().db, ana.id)).bytes, 5 * GiB)
})

test('of concurrent writes only those that fit are stored', async t => {
  const ana = await nearlyFull(25)
  const wire = await wireOf(api(), ana)
  const answers = await Promise.all([1, 2].map(n => wire.send('PUT', `/private/${n}`, { body: 'x'.repeat(13) })))
  t.deepEqual(answers.map(({ code }) => code ?? 'stored').sort(), ['QuotaExceeded', 'stored'])
})

test('a body that cannot fit is refused before it is sent, also where parts of open uploads take the room', async t => {
  const [ana, bob] = [await nearlyFull(10), await nearlyFull(52_000_000)]
  const parts = await wireOf(api(), bob)
  const [, id] = /<UploadId>(\w+)</.exec((await parts.send('POST', '/private/large?uploads')).text)!
  const part = { body: Buffer.alloc(3_000_000) }
  t.is((await parts.send('PUT', `/private/large?partNumber=1&uploadId=${id}`, part)).status, 200)
  for (const user of [ana, bob]) await isRefusedEarly(t, user)
})

async function isRefusedEarly(t: ExecutionContext, user: TestUser) {
  const wire = await wireOf(api(), user)
  const headers = { expect: '100-continue' }
  const sending = wire.open('PUT', '/private/k', { payload: 'UNSIGNED-PAYLOAD', length: 50_000_000, headers })
  sending.once('continue', () => t.fail('the body was asked for'))
  sending.flushHeaders()
  t.is((await answerOf(sending)).code, 'QuotaExceeded')
  sending.destroy()
}

test('the rule of a prefix limits size and types, and sets expiry and cache directives', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await saveRules(api().db, ana.id, [
    rule('img/', { max_size: 512, extensions: ['png'], expire: '7d', cache_control: 'max-age=60' }),
    rule('img/raw/'),
  ])
  const put = (key: string, bytes = 1, headers = {}) =>
    wire.send('PUT', `/public/${key}`, { body: 'x'.repeat(bytes), headers })
  t.is((await put('img/a.png', 513)).code, 'EntityTooLarge')
  t.is((await put('img/a.gif')).code, 'AccessDenied')
  const written = await put('img/a.png', 512)
  t.is(written.status, 200)
  t.regex(String(written.headers['x-amz-expiration']), /^expiry-date="[^"]+ GMT", rule-id="rule"$/)
  const days = (await api().db('objects').where({ owner_id: ana.id }).first()).expires_at.getTime() - Date.now()
  t.true(Math.abs(days / 86_400_000 - 7) < 0.1)
  t.is((await wire.send('HEAD', '/public/img/a.png')).headers['cache-control'], 'max-age=60')
  await put('img/a.png', 1, { 'cache-control': 'max-age=5' })
  t.is((await wire.send('HEAD', '/public/img/a.png')).headers['cache-control'], 'max-age=5')
  t.is((await put('img/raw/a.gif', 513)).status, 200, 'the longest prefix counts')
  for (const key of ['a.exe', 'img/raw/a.EXE', 'a.tar.exe', 'a.exe/b.dll'])
    t.is((await put(key)).code, 'AccessDenied', key)
})

test('no-cache in the bucket public requires a plan with that option', async t => {
  const ana = await api().makeUser({ plan: 'pro-12' })
  const wire = await wireOf(api(), ana)
  const put = (bucket: string, directive: string) =>
    wire.send('PUT', `/${bucket}/k`, { body: 'x', headers: { 'cache-control': directive } })
  for (const directive of ['no-cache', 'max-age=0, No-Cache', 'no-store'])
    t.is((await put('public', directive)).code, 'AccessDenied', directive)
  t.is((await put('public', 'max-age=60')).status, 200)
  t.is((await put('private', 'no-cache')).status, 200)
})
