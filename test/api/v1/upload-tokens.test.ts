import test from 'ava'
import type { Caller } from '../../../api/pipeline/authenticate.ts'
import { withTokenUse } from '../../../api/v1/upload-token-use.ts'
import { CommitInDoubt } from '../../../db/commits-in-doubt.ts'
import { mapConcurrently } from '../../../lib/async/concurrently.ts'
import { CodedError } from '../../../policy/errors.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { chunkedAs } from '../../kit/actors/chunked.ts'

const api = testApi()

const mint = (who: TestUser | string, pins: object = {}, headers?: Record<string, string>) =>
  api().blobAs(who).post('/v1/upload-tokens', JSON.stringify(pins), headers)

async function tokenOf(who: TestUser | string, pins: object = {}): Promise<string> {
  return (await mint(who, pins)).body.response.token
}

test('a token states its lifetime and number of uses', async t => {
  const ana = await api().makeUser()
  const startedAt = Date.now()
  const { status, body } = await mint(ana)
  t.is(status, 200)
  t.regex(body.response.token, /^bup_[0-9A-Za-z]{64}$/)
  t.is(body.response.max_uses, 1)
  const life = new Date(body.response.expires_at).getTime() - startedAt
  t.true(life > 895_000 && life < 960_000, `${life}`)
  t.like((await mint(ana, { max_uses: 100, expires_in: 3600 })).body.response, { max_uses: 100 })
})

test('a failed upload returns the use of its token, unless it may have been committed', async t => {
  const ana = await api().makeUser()
  await mint(ana)
  const [{ id }] = await api().db('upload_tokens').where({ owner_id: ana.id })
  const caller = { uploadToken: { id } } as Caller
  const usedAfter = async (failure: Error) => {
    const fails = () => Promise.reject(failure)
    await t.throwsAsync(withTokenUse(api().services, caller, fails), { is: failure })
    const { used } = await api().db('upload_tokens').where({ id }).first()
    await api().db('upload_tokens').where({ id }).update({ used: 0 })
    return used
  }
  t.is(await usedAfter(new CodedError('UPLOAD_ABORTED')), 0)
  t.is(await usedAfter(new CommitInDoubt(undefined)), 1)
  t.is(await usedAfter(new Error('Connection terminated')), 1)
})

test('a token whose credential expires sooner states the end of that, and lives until then', async t => {
  const { makeUser, makeKey, db, blobAs } = api()
  const ana = await makeUser()
  const soon = new Date(Date.now() + 120_000)
  const key = await makeKey(ana, { expiresAt: soon })
  // A session is accepted for another minute, also while it mints.
  const ended = new Date(soon.getTime() - 60_000)
  await db('sessions').where({ id: ana.sessionId }).update({ expires_at: ended })
  for (const who of [key.key, ana.session]) {
    const { response } = (await mint(who)).body
    t.is(response.expires_at, soon.toISOString())
    t.is((await chunkedAs(blobAs(response.token)).init()).status, 200)
    const { expires_at } = (await mint(who, { expires_in: 60 })).body.response
    t.true(new Date(expires_at) < soon, 'it ends sooner than the credential')
  }
})

test('every invalid pin is refused with its own code', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const refused: [object, number, string][] = [
    [{ name: 'a b' }, 400, 'INVALID_OBJECT_NAME'],
    [{ prefix: '../a' }, 400, 'INVALID_OBJECT_PREFIX'],
    [{ private: 'yes' }, 400, 'INVALID_OBJECT_PRIVATE'],
    [{ security_hash: 1 }, 400, 'INVALID_OBJECT_SECURITY_HASH'],
    [{ expire: '1 day' }, 400, 'INVALID_OBJECT_EXPIRE'],
    [{ metadata: { a: 1 } }, 400, 'INVALID_OBJECT_METADATA'],
    [{ metadata: { a: 'b\r\nSet-Cookie: c' } }, 400, 'INVALID_OBJECT_METADATA'],
    [{ allowed_extensions: ['.png'] }, 400, 'INVALID_FILE_TYPE'],
    [{ allowed_extensions: [] }, 400, 'INVALID_PARAMETERS'],
    [{ allowed_extensions: Array(21).fill('png') }, 400, 'INVALID_PARAMETERS'],
    [{ allowed_extensions: ['exe', 'tar.dll'] }, 400, 'BLOCKED_FILE_TYPE'],
    [{ max_size: 0 }, 400, 'INVALID_PARAMETERS'],
    [{ max_uses: 0 }, 400, 'INVALID_PARAMETERS'],
    [{ max_uses: 101 }, 400, 'INVALID_PARAMETERS'],
    [{ expires_in: 59 }, 400, 'INVALID_EXPIRES_IN'],
    [{ expires_in: 3601 }, 400, 'INVALID_EXPIRES_IN'],
    [{ expires_in: 60.5 }, 400, 'INVALID_EXPIRES_IN'],
    [{ metadata: { a: 'b' } }, 403, 'UPGRADE_REQUIRED'],
    [{ expire: '1h' }, 403, 'UPGRADE_REQUIRED'],
  ]
  for (const [pins, status, code] of refused)
    t.like(await mint(ana, pins), { status, body: { code } }, JSON.stringify(pins))
  t.is((await mint(ana, { expires_in: 60, max_uses: 100, allowed_extensions: Array(20).fill('tar.gz') })).status, 200)
  t.is((await mint(ana, { allowed_extensions: ['exe', 'png'] })).status, 200, 'something can come')
})

test('null means not pinned', async t => {
  const ana = await api().makeUser()
  const pins = ['name', 'prefix', 'private', 'security_hash', 'expire', 'max_size', 'allowed_extensions', 'metadata']
  const nothing = Object.fromEntries([...pins, 'expires_in', 'max_uses'].map(field => [field, null]))
  const { status, body } = await mint(ana, nothing)
  t.like([status, body.response], [200, { max_uses: 1 }])
  t.deepEqual(await api().db('upload_tokens').where({ owner_id: ana.id }).pluck('pins'), [{}])
  const chunked = chunkedAs(api().blobAs(body.response.token))
  t.regex((await chunked.init({ prefix: 'a' })).body.response.id, /^pub\/\d+\/a\/film_[a-z2-7]{16}\.mp4$/)
})

test('pins must be at most 2 KB', async t => {
  const pro = await api().makeUser({ plan: 'pro-12' })
  const longest = Array.from({ length: 20 }, (_, n) => `${`${n}`.padEnd(16, 'a')}.${'b'.repeat(16)}`)
  const prefix = Array(4).fill('c'.repeat(60)).join('/')
  const pins = { allowed_extensions: longest, prefix, metadata: { a: 'd'.repeat(511) } }
  t.is((await mint(pro, pins)).status, 200, `${JSON.stringify(pins).length} bytes`)
  const more = { ...pins, name: 'n'.repeat(50), metadata: { a: '"'.repeat(511) } }
  t.like(await mint(pro, more), { status: 400, body: { code: 'UPLOAD_TOKEN_TOO_LARGE' } })
})

test('a token can be created by callers who may upload: scope, plan and prefixes', async t => {
  const { makeUser, makeKey, db } = api()
  const ana = await makeUser()
  const reader = await makeKey(ana, { scopes: ['blob:read'] })
  t.like(await mint(reader.key), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.like(await mint(await makeUser({ plan: 'free' })), { status: 401, body: { code: 'PERMISSION_DENIED' } })
  t.like(await api().blobAs(undefined).post('/v1/upload-tokens'), { status: 401, body: { code: 'ACCESS_DENIED' } })
  t.is((await mint(ana.session)).status, 200)
  const limited = await makeKey(ana, {})
  await db('api_keys')
    .where({ id: limited.id })
    .update({ prefixes: ['a/'] })
  t.like(await mint(limited.key, { prefix: 'b' }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  const open = chunkedAs(api().blobAs(await tokenOf(limited.key)))
  t.like(await open.init({ prefix: 'b' }), { status: 403, body: { code: 'PREFIX_NOT_ALLOWED' } })
  t.like(await open.init(), { status: 400, body: { code: 'PREFIX_REQUIRED' } })
  t.is((await open.init({ prefix: 'a/c' })).status, 200)
})

test('a token uploads in parts from start to end, and its pins hold', async t => {
  const ana = await api().makeUser()
  const pins = {
    name: 'avatar',
    prefix: 'users/7',
    private: true,
    expire: '30d',
    max_size: 10,
    allowed_extensions: ['png'],
    metadata: { by: '7' },
  }
  const chunked = chunkedAs(api().blobAs(await tokenOf(ana, { ...pins, max_uses: 2 })))
  const refused = await chunked.init({ filename: 'a.gif' })
  t.like(refused, { status: 400, body: { code: 'FILE_TYPE_NOT_ALLOWED' } })
  const asked = { filename: 'a.png', name: 'mine', prefix: 'theirs', private: 'false', expire: '60d', metadata: '{}' }
  const { upload, id, chunk } = (await chunked.init(asked)).body.response
  t.is(chunk.max_object_size, 10)
  t.regex(id, new RegExp(`^prv/${ana.id}/users/7/avatar-ex\\d+\\.png$`))
  t.like(await chunked.part(upload, 1, 'x'.repeat(11)), { status: 413, body: { code: 'FILE_TOO_LARGE' } })
  t.is((await chunked.part(upload, 1, 'x'.repeat(10))).status, 200)
  t.like((await chunked.complete(upload)).body.response, { id, private: true, size: 10 })
  const [object] = await api().db('objects').where({ owner_id: ana.id })
  t.deepEqual(object.metadata, { by: '7' })
  // The same name within the same second.
  const { response } = (await chunked.init({ filename: 'b.png', overwrite: 'true' })).body
  t.is((await chunked.abort(response.upload)).status, 200)
  t.like(await chunked.init({ filename: 'c.png', overwrite: 'true' }), {
    status: 403,
    body: { code: 'UPLOAD_TOKEN_USED' },
  })
})

test('without a pinned name an uploader cannot take an existing name of the account', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(await tokenOf(ana)))
  const { id } = (await chunked.init({ name: 'logo', overwrite: 'true' })).body.response
  t.regex(id, /\/logo_[a-z2-7]{16}\.mp4$/)
})

test.serial('of 200 concurrent Inits as many succeed as the token has uses', async t => {
  const ana = await api().makeUser()
  const { blobAs, db } = api()
  const chunked = chunkedAs(blobAs(await tokenOf(ana, { max_uses: 5 })))
  // More would only wait for connections, of which the pool has ten.
  const inits = await mapConcurrently(Array(200).fill({}), 9, () => chunked.init())
  t.is(inits.filter(init => init.status === 200).length, 5)
  t.is(inits.filter(init => init.body.code === 'UPLOAD_TOKEN_USED').length, 195)
  t.is((await db('uploads').where({ owner_id: ana.id })).length, 5)
})

test('a refused Init takes no use', async t => {
  const chunked = chunkedAs(api().blobAs(await tokenOf(await api().makeUser())))
  t.is((await chunked.init({ filename: 'a.exe' })).status, 400)
  t.is((await chunked.init()).status, 200)
})

test('a token continues only its own upload, used up or not, and works nowhere else', async t => {
  const ana = await api().makeUser()
  const { blobAs, as } = api()
  const [one, two] = [await tokenOf(ana), await tokenOf(ana, { max_uses: 9 })]
  const { upload } = (await chunkedAs(blobAs(one)).init()).body.response
  const other = chunkedAs(blobAs(two))
  for (const call of [other.part(upload, 1, 'x'), other.complete(upload), other.abort(upload)])
    t.like(await call, { status: 400, body: { code: 'INVALID_UPLOAD_TOKEN' } })
  const own = chunkedAs(blobAs(one))
  t.is((await own.part(upload, 1, 'x')).status, 200)
  for (const call of [own.status(upload), own.open(), mint(two)])
    t.like(await call, { status: 403, body: { code: 'UPLOAD_TOKEN_NOT_ALLOWED' } })
  t.like(await as(two).get('/v2/users/me'), { status: 403, body: { code: 'UPLOAD_TOKEN_NOT_ALLOWED' } })
  t.is((await own.complete(upload)).status, 200)
})

test('a token ends with the credential that created it, and when it expires', async t => {
  const { makeUser, makeKey, db, blobAs } = api()
  const ana = await makeUser()
  const key = await makeKey(ana, {})
  const [ofKey, ofSession, old, used] = [
    await tokenOf(key.key),
    await tokenOf(ana.session),
    await tokenOf(ana, { name: 'old' }),
    await tokenOf(key.key, { max_uses: 5 }),
  ]
  t.is((await chunkedAs(blobAs(used)).init()).status, 200)
  await db('api_keys').where({ id: key.id }).update({ revoked_at: db.fn.now() })
  await db('sessions').where({ id: ana.sessionId }).update({ revoked_at: db.fn.now() })
  await db('upload_tokens').whereRaw(`pins->>'name' = 'old'`).update({ expires_at: db.fn.now() })
  for (const token of [ofKey, ofSession, old])
    t.like(await chunkedAs(blobAs(token)).init(), { status: 401, body: { code: 'ACCESS_DENIED' } })
  // Promise P4: what was believed a moment ago is not believed for a second.
  await new Promise(resolve => setTimeout(resolve, 1000))
  t.like(await chunkedAs(blobAs(used)).init(), { status: 401, body: { code: 'ACCESS_DENIED' } })
})

test('a token whose key or session has expired is refused', async t => {
  const { makeUser, makeKey, db, blobAs } = api()
  const ana = await makeUser()
  const key = await makeKey(ana, {})
  const tokens = [await tokenOf(key.key), await tokenOf(ana.session)]
  await db('api_keys').where({ id: key.id }).update({ expires_at: db.fn.now() })
  await db('sessions')
    .where({ id: ana.sessionId })
    .update({ expires_at: new Date(Date.now() - 60_000) })
  for (const token of tokens)
    t.like(await chunkedAs(blobAs(token)).init(), { status: 401, body: { code: 'ACCESS_DENIED' } })
})

test('the same Idempotency-Key creates one token, whose text is not in the database', async t => {
  const ana = await api().makeUser()
  const key = { 'idempotency-key': 'once' }
  const [first, again] = [await mint(ana, { name: 'a' }, key), await mint(ana, { name: 'a' }, key)]
  t.deepEqual(again.body, first.body)
  t.is((await chunkedAs(api().blobAs(first.body.response.token)).init()).status, 200)
  const { db } = api()
  t.is((await db('upload_tokens').where({ owner_id: ana.id })).length, 1)
  const kept = JSON.stringify([await db('idempotency_keys'), await db('upload_tokens')])
  t.false(kept.includes(first.body.response.token))
  await db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
  const early = await mint(ana, { name: 'a' }, key)
  t.like(early, { status: 409, body: { code: 'IDEMPOTENCY_IN_PROGRESS' } }, 'while the first runs')
})
