import test from 'ava'
import { revokeKey } from '../../../db/accounts/accounts.ts'
import { findS3Credential } from '../../../db/objects/s3-credentials.ts'
import { s3Secret } from '../../../policy/objects/s3-credentials.ts'
import { masterKey, openApiFor, type TestUser, testApi } from '../../kit/actors/api.ts'

const api = testApi()
const secret = s3Secret(masterKey)

const ask = (who: TestUser | string | undefined) => api().blobAs(who).get('/v1/s3/credentials')
const find = (accessKeyId: string) => findS3Credential(api().db, secret, accessKeyId)

test('a key has one pair, which identifies its account', async t => {
  const ana = await api().makeUser()
  const [first, again] = [await ask(ana), await ask(ana)]
  const pair = first.body.response
  t.regex(pair.access_key_id, /^BRTH[A-Z0-9]{16}$/)
  t.regex(pair.secret_access_key, /^[0-9A-Za-z]{40}$/)
  t.like(pair, {
    endpoint: api().services.config.urls.s3,
    region: 'auto',
    buckets: ['public', 'private', 'legacy'],
    access: { read: true, write: true },
    expires_at: null,
  })
  t.deepEqual(again.body.response, pair)
  const found = await find(pair.access_key_id)
  t.is(found?.secretAccessKey, pair.secret_access_key)
  t.like(found?.user, { id: ana.id, scopes: null, credential_id: ana.keyId })
})

test('another key has another pair, with the rights and expiry of that key', async t => {
  const ana = await api().makeUser()
  const expiresAt = new Date(Date.now() + 3600_000)
  const reader = await api().makeKey(ana, { scopes: ['blob:read'], expiresAt })
  const writer = await api().makeKey(ana, { scopes: ['blob:write'] })
  const [full, read, write] = await Promise.all(
    [ana, reader.key, writer.key].map(async who => (await ask(who)).body.response),
  )
  t.is(new Set([full, read, write].map(pair => pair.access_key_id)).size, 3)
  t.is(new Set([full, read, write].map(pair => pair.secret_access_key)).size, 3)
  t.deepEqual(
    [read.access, write.access],
    [
      { read: true, write: false },
      { read: false, write: true },
    ],
  )
  t.is(read.expires_at, expiresAt.toISOString())
  t.deepEqual((await find(read.access_key_id))?.user.scopes, ['blob:read'])
})

test('a pair ends with its key, its expiry and its account', async t => {
  const ana = await api().makeUser()
  const [revoked, expired] = [await api().makeKey(ana, {}), await api().makeKey(ana, {})]
  const pairs = await Promise.all([ana, revoked.key, expired.key].map(async who => (await ask(who)).body.response))
  const [own, one, two] = pairs.map(pair => pair.access_key_id as string)
  const { db } = api()
  await db('api_keys').where({ id: revoked.id }).update({ revoked_at: new Date() })
  await db('api_keys')
    .where({ id: expired.id })
    .update({ expires_at: new Date(Date.now() - 1000) })
  t.is(await find(one!), undefined)
  t.is(await find(two!), undefined)
  t.truthy(await find(own!))
  await db('users').where({ id: ana.id }).update({ blocked_at: new Date() })
  t.is(await find(own!), undefined)
  t.is(await find('BRTH0000000000000000'), undefined)
})

test('only an API key with a scope for blobs may request S3 credentials', async t => {
  const ana = await api().makeUser()
  const other = (await api().makeKey(ana, { scopes: ['apps:read'] })).key
  const { token } = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response
  t.like(await ask(ana.session), { status: 400, body: { code: 'API_KEY_REQUIRED' } })
  t.like(await ask(other), { status: 403, body: { code: 'MISSING_SCOPE' } })
  t.like(await ask(token), { status: 403, body: { code: 'UPLOAD_TOKEN_NOT_ALLOWED' } })
  t.like(await ask(undefined), { status: 401, body: { code: 'ACCESS_DENIED' } })
})

test('another server key gives other secrets', async t => {
  const ana = await api().makeUser()
  const { access_key_id, secret_access_key } = (await ask(ana)).body.response
  const elsewhere = await findS3Credential(api().db, s3Secret('00'.repeat(32)), access_key_id)
  t.not(elsewhere?.secretAccessKey, secret_access_key)
})

test('a key that is revoked after it was looked up gives no pair', async t => {
  const { db } = api()
  const ana = await api().makeUser()
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    for (const step of undo.reverse()) await step()
  })
  const late = await openApiFor(
    { db, url: db.client.config.connection.connectionString },
    {
      services: ({ authenticate }) => ({
        async authenticate(request, address) {
          const caller = await authenticate(request, address)
          await revokeKey(db, ana.keyId)
          return caller
        },
      }),
    },
    undo,
  )
  const answer = await late.blobAs(ana).get('/v1/s3/credentials')
  t.deepEqual([answer.status, answer.body.code], [401, 'INVALID_CREDENTIAL'])
})
