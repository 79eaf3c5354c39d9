import test from 'ava'
import { createKey } from '../../../db/accounts/accounts.ts'
import { removeObject } from '../../../db/objects/objects.ts'
import { objectName } from '../../../policy/objects/object-names.ts'
import { accountCaps } from '../../../policy/request-caps.ts'
import { masterKey, type TestUser, testApi } from '../../kit/actors/api.ts'
import { madeObject } from '../../kit/objects/stored-objects.ts'

const api = testApi()

type Who = TestUser | string | undefined
const create = (who: Who, asked: object, headers?: Record<string, string>) =>
  api().blobAs(who).post('/v1/shares', JSON.stringify(asked), headers)
const list = (who: Who) => api().blobAs(who).get('/v1/shares')
const revoke = (who: Who, asked: object) =>
  api()
    .blobAs(who)
    .request('DELETE', '/v1/shares', { body: JSON.stringify(asked) })

test('a share is described in its answer and listed until it is revoked', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const startedAt = Date.now()
  const plain = await create(ana, { object: made.id })
  t.is(plain.status, 201)
  const { id, url, expires_at, ...rest } = plain.body.response
  t.regex(id, /^[0-9A-Za-z]{22}$/)
  t.is(url, `${api().services.config.urls.files}/s/${id}`)
  t.deepEqual(rest, { max_downloads: null, password: false, object: made.id, object_is_public: false })
  const life = Date.parse(expires_at) - startedAt
  t.true(life > 86_395_000 && life < 86_460_000, `${life}`)
  const guarded = await create(ana, { object: made.id, expires_in: 60, max_downloads: 10_000, password: '12345678' })
  t.like(guarded.body.response, { max_downloads: 10_000, password: true })
  const { shares } = (await list(ana)).body.response
  t.deepEqual(
    shares.map(({ created_at, ...share }: Record<string, unknown>) => typeof created_at === 'string' && share),
    [
      {
        id: guarded.body.response.id,
        url: guarded.body.response.url,
        object: made.id,
        expires_at: guarded.body.response.expires_at,
        remaining_downloads: 10_000,
        password: true,
      },
      { id, url, object: made.id, expires_at, remaining_downloads: null, password: false },
    ],
  )
  const revoked = await revoke(ana, { id })
  t.deepEqual([revoked.status, revoked.body], [200, { status: 'success' }])
  t.like(await revoke(ana, { id }), { status: 404, body: { code: 'SHARE_NOT_FOUND' } })
  t.is((await list(ana)).body.response.shares.length, 1)
})

test('a public object may be shared, which restricts nothing', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana, { bucket: 'public' })
  t.like((await create(ana, { object: made.id })).body.response, { object: made.id, object_is_public: true })
})

test('null equals an omitted field', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const made = await madeObject(api(), ana)
  const startedAt = Date.now()
  const share = await create(ana, { object: made.id, expires_in: null, max_downloads: null, password: null })
  t.is(share.status, 201, share.text)
  t.like(share.body.response, { max_downloads: null, password: false })
  const life = Date.parse(share.body.response.expires_at) - startedAt
  t.true(life > 86_395_000 && life < 86_460_000, `${life}`)
  t.like(await create(ana, { object: null }), { status: 400, body: { code: 'INVALID_OBJECT' } })
})

test('every invalid share is refused with its own code', async t => {
  const ana = await api().makeUser({ plan: 'standard-4' })
  const pro = await api().makeUser({ plan: 'pro-12' })
  const { id: object } = await madeObject(api(), ana)
  const refused: [object | string, number, string][] = [
    [{}, 400, 'INVALID_OBJECT'],
    [{ object: 7 }, 400, 'INVALID_OBJECT'],
    [{ object: 'x' }, 400, 'INVALID_OBJECT'],
    [{ object: `prv/${ana.id}/none.bin` }, 404, 'OBJECT_NOT_FOUND'],
    ...[59, 2_592_001, 60.5, '60'].map((expires_in): [object, number, string] => [
      { object, expires_in },
      400,
      'INVALID_EXPIRES_IN',
    ]),
    ...[0, 10_001, 1.5, '1'].map((max_downloads): [object, number, string] => [
      { object, max_downloads },
      400,
      'INVALID_MAX_DOWNLOADS',
    ]),
    ...['1234567', 'x'.repeat(129), 12345678].map((password): [object, number, string] => [
      { object, password },
      400,
      'INVALID_PASSWORD',
    ]),
    [{ object, password: '12345678' }, 403, 'UPGRADE_REQUIRED'],
  ]
  for (const [asked, status, code] of refused)
    t.like(await create(ana, asked as object), { status, body: { status: 'error', code } }, JSON.stringify(asked))
  t.like(await api().blobAs(ana).post('/v1/shares', '[]'), { status: 400, body: { code: 'INVALID_BODY' } })
  for (const id of [undefined, 7, '', 'x', `${'x'.repeat(21)}-`])
    t.like(await revoke(ana, { id }), { status: 400, body: { code: 'INVALID_SHARE' } })
  const [foreign, missing] = await Promise.all([create(pro, { object }), create(pro, { object: `${object}x` })])
  t.deepEqual([foreign.status, foreign.text], [missing.status, missing.text])
  const { id } = (await create(ana, { object })).body.response
  const [others, none] = await Promise.all([revoke(pro, { id }), revoke(pro, { id: 'x'.repeat(22) })])
  t.deepEqual([others.status, others.text], [none.status, none.text])
  t.is((await list(pro)).body.response.shares.length, 0)
})

test('each kind of caller may create, list and revoke shares as its rights allow', async t => {
  const ana = await api().makeUser()
  const { id: object } = await madeObject(api(), ana, { key: 'in/x.bin' })
  const key = async (input: Partial<Parameters<typeof createKey>[2]>) =>
    (await createKey(api().db, masterKey, { userId: ana.id, ...input })).key
  const revoked = await createKey(api().db, masterKey, { userId: ana.id })
  await api().db('api_keys').where({ id: revoked.id }).update({ revoked_at: new Date() })
  const token = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response.token
  const cells: [who: string | undefined, create: string, list: string, revoke: string][] = [
    [ana.key, '201', '200 all', '200'],
    [ana.session, '201', '200 all', '200'],
    [await key({ scopes: ['blob:write'] }), '201', '403 MISSING_SCOPE', '200'],
    [await key({ scopes: ['blob:read'] }), '403 MISSING_SCOPE', '200 all', '403 MISSING_SCOPE'],
    [await key({ prefixes: ['in/'] }), '201', '200 all', '200'],
    [await key({ prefixes: ['out/'] }), '403 PREFIX_NOT_ALLOWED', '200 none', '403 PREFIX_NOT_ALLOWED'],
    [token, ...(Array(3).fill('403 UPLOAD_TOKEN_NOT_ALLOWED') as [string, string, string])],
    [revoked.key, ...(Array(3).fill('401 ACCESS_DENIED') as [string, string, string])],
    [undefined, ...(Array(3).fill('401 ACCESS_DENIED') as [string, string, string])],
  ]
  for (const [who, ...expected] of cells) {
    const { id } = (await create(ana, { object })).body.response
    const made = await create(who, { object })
    const seen = await list(who)
    const revoked = await revoke(who, { id })
    const shown = seen.status === 200 ? ` ${seen.body.response.shares.length ? 'all' : 'none'}` : ` ${seen.body.code}`
    const reported = [made, revoked].map(({ status, body }) => (body.code ? `${status} ${body.code}` : `${status}`))
    t.deepEqual([reported[0], seen.status + shown, reported[1]], expected)
  }
})

test('an account has at most 1000 working shares, even if many are created concurrently', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  await create(ana, { object: made.id })
  await api().db.raw(
    `insert into shares (id, owner_id, bucket, key, birth, expires_at)
     select substr(md5(n::text || $1), 1, 22), owner_id, bucket, key, birth, expires_at
       from shares, generate_series(1, ${accountCaps.shares - 3}) as n where owner_id = $1`.replaceAll('$1', '?'),
    [ana.id, ana.id],
  )
  const reported = await Promise.all(Array.from({ length: 8 }, () => create(ana, { object: made.id })))
  t.deepEqual(reported.map(({ status, body }) => body.code ?? status).sort(), [
    201,
    201,
    ...Array(6).fill('TOO_MANY_SHARES'),
  ])
  t.is(reported.find(({ status }) => status !== 201)?.status, 409)
  t.is((await list(ana)).body.response.shares.length, accountCaps.shares)
  const other = await madeObject(api(), ana)
  await api().db.transaction(trx => removeObject(trx, objectName(made.id)!))
  t.is((await create(ana, { object: other.id })).status, 201)
  t.is((await list(ana)).body.response.shares.length, 1)
})

test('an Idempotency-Key creates one share', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const asked = { object: made.id, password: 'correct horse' }
  const headers = { 'idempotency-key': 'once' }
  const first = await create(ana, asked, headers)
  const again = await create(ana, asked, headers)
  t.deepEqual([again.status, again.body], [201, first.body])
  t.is(again.headers.get('idempotent-replayed'), 'true')
  const reused = await create(ana, { ...asked, password: 'another horse' }, headers)
  t.like(reused, { status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  await api().db('idempotency_keys').where({ user_id: ana.id }).update({ status: null })
  t.like(
    await create(ana, asked, headers),
    { status: 409, body: { code: 'IDEMPOTENCY_IN_PROGRESS' } },
    'while the first runs',
  )
  const long = await create(ana, asked, { 'idempotency-key': 'x'.repeat(256) })
  t.like(long, { status: 400, body: { code: 'INVALID_PARAMETERS' } })
  t.is((await list(ana)).body.response.shares.length, 1)
})

test('no password can be read from what is stored', async t => {
  const ana = await api().makeUser()
  const made = await madeObject(api(), ana)
  const password = 'correct horse battery'
  await create(ana, { object: made.id, password }, { 'idempotency-key': 'kept' })
  const kept = await api().db('shares').where({ owner_id: ana.id })
  const keys = await api().db('idempotency_keys').where({ user_id: ana.id })
  t.is(kept.length + keys.length, 2)
  t.notRegex(JSON.stringify([kept, keys]), /correct horse/)
  t.regex(kept[0].password_hash, /^scrypt\$15\$/)
})
