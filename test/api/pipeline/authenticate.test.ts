import { createHmac, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import test from 'ava'
import { SignJWT } from 'jose'
import { revokeKey, revokeSession, setBlocked } from '../../../db/accounts/accounts.ts'
import { newApiKey } from '../../../policy/accounts/credentials.ts'
import { sessionKey } from '../../../policy/accounts/sessions.ts'
import { newId } from '../../../policy/ids.ts'
import { masterKey, openApiFor, testApi } from '../../kit/actors/api.ts'

const api = testApi()
const undo: (() => Promise<unknown>)[] = []
test.after.always('end the second process', async () => {
  for (const step of undo.reverse()) await step()
})
const denied =
  '{"status":"error","code":"ACCESS_DENIED","message":"The credential is missing, malformed, invalid or expired."}'

test('a key is <user id>-<secret>, 64 to 128 characters, and only its hash is stored', async t => {
  const ana = await api().makeUser()
  t.regex(ana.key, new RegExp(`^${ana.id}-[0-9A-Za-z]{51}$`))
  const row = await api().db('api_keys').where({ id: ana.keyId }).first()
  t.false(JSON.stringify({ ...row, hash: row.hash.toString('utf8') }).includes(ana.key.split('-')[1]!.slice(0, 20)))
})

test('malformed credentials are refused', async t => {
  const ana = await api().makeUser()
  const stranger = newApiKey(masterKey, ana.id).key
  const flipped = ana.key.slice(0, 30) + (ana.key[30] === 'a' ? 'b' : 'a') + ana.key.slice(31)
  const junk = [
    undefined,
    '',
    'x',
    'x'.repeat(63),
    'x'.repeat(64),
    'x'.repeat(1024),
    'x'.repeat(1025),
    stranger,
    flipped,
    `Basic ${ana.key}`,
    `Bearer  ${ana.key}`,
    `Bearer Bearer ${ana.key}`,
    `${ana.key}x`,
    `${ana.key}, ${ana.key}`,
  ]
  for (const credential of junk) {
    const answer = await api().as(credential).get('/v2/users/me')
    t.is(answer.status, 401, credential)
    t.is(answer.text, denied)
  }
})

test('two Authorization headers are refused', async t => {
  const ana = await api().makeUser()
  const status = await new Promise(resolve => {
    const call = request(
      `${api().url}/v2/users/me`,
      { headers: { authorization: [ana.key, ana.key] as unknown as string } },
      answer => {
        answer.resume()
        resolve(answer.statusCode)
      },
    )
    call.end()
  })
  t.is(status, 401)
})

test('in every process new keys work immediately; revoked keys, ended sessions and blocked accounts are refused within a second', async t => {
  const { db } = api()
  const processes = [api(), await openApiFor({ db, url: db.client.config.connection.connectionString }, {}, undo)]
  const ana = await api().makeUser()
  const bob = await api().makeUser()
  const credentials = [ana.key, ana.session, bob.key, bob.session]
  const answers = () =>
    Promise.all(
      processes.map(process =>
        Promise.all(credentials.map(async credential => (await process.as(credential).get('/v2/users/me')).status)),
      ),
    )
  t.deepEqual(await answers(), [Array(4).fill(200), Array(4).fill(200)])
  await revokeKey(db, ana.keyId)
  await revokeSession(db, ana.sessionId)
  await setBlocked(db, bob.id, true)
  await new Promise(resolve => setTimeout(resolve, 1000))
  t.deepEqual(await answers(), [Array(4).fill(401), Array(4).fill(401)])
})

test('an expired key is refused', async t => {
  const ana = await api().makeUser()
  const { key } = await api().makeKey(ana, { expiresAt: new Date(Date.now() - 1000) })
  t.is((await api().as(key).get('/v2/users/me')).status, 401)
})

test('forged session tokens: none is accepted', async t => {
  const ana = await api().makeUser()
  const bob = await api().makeUser()
  const key = sessionKey(masterKey)
  const claims = { sid: ana.sessionId, sub: ana.id, iss: 'berth', aud: 'berth-api', iat: now(), exp: now() + 600 }
  const sign = (change: object = {}, header: object = {}, secret: Uint8Array = key) =>
    new SignJWT({ ...claims, ...change }).setProtectedHeader({ alg: 'HS256', kid: 's1', ...header }).sign(secret)
  t.is(
    (
      await api()
        .as(await sign())
        .get('/v2/users/me')
    ).status,
    200,
    'the honest one',
  )
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const [header, payload, signature] = (await sign()).split('.') as [string, string, string]
  const hs512 = (): string => {
    const text = `${part({ alg: 'HS512', kid: 's1' })}.${payload}`
    return `${text}.${createHmac('sha512', key).update(text).digest('base64url')}`
  }
  const forged: Record<string, string> = {
    'other key': await sign({}, {}, randomBytes(32)),
    'no signature': `${header}.${payload}.`,
    'alg none': `${part({ alg: 'none', kid: 's1' })}.${payload}.`,
    'alg none, signed': `${part({ alg: 'none', kid: 's1' })}.${payload}.${signature}`,
    'other algorithm': hs512(),
    'unknown kid': await sign({}, { kid: 's2' }),
    'kid as a path': await sign({}, { kid: '../../etc/passwd' }),
    'no kid': await sign({}, { kid: undefined }),
    'no exp': await sign({ exp: undefined }),
    expired: await sign({ exp: now() - 120 }),
    'not yet': await sign({ nbf: now() + 600 }),
    'other issuer': await sign({ iss: 'other' }),
    'other audience': await sign({ aud: 'other' }),
    'no session': await sign({ sid: undefined }),
    'unknown session': await sign({ sid: newId() }),
    "another's session": await sign({ sub: bob.id }),
    'changed payload': `${header}.${part({ ...claims, sub: bob.id })}.${signature}`,
    'four parts': `${header}.${payload}.${signature}.${signature}`,
  }
  for (const [name, token] of Object.entries(forged)) {
    const answer = await api().as(token).get('/v2/users/me')
    t.is(answer.status, 401, name)
    t.is(answer.text, denied, name)
  }
})

test('clocks may differ by a minute', async t => {
  const ana = await api().makeUser()
  const token = await new SignJWT({ sid: ana.sessionId, sub: ana.id, iss: 'berth', aud: 'berth-api', exp: now() - 30 })
    .setProtectedHeader({ alg: 'HS256', kid: 's1' })
    .sign(sessionKey(masterKey))
  t.is((await api().as(token).get('/v2/users/me')).status, 200)
})

test('a caller that keeps trying dead keys is refused without a lookup, and a valid key keeps working', async t => {
  const ana = await api().makeUser()
  const dead = await api().makeKey(ana, {})
  await revokeKey(api().db, dead.id)
  for (let i = 0; i < 25; i++) t.is((await api().as(dead.key).get('/v2/users/me')).status, 401)
  // Made live again in the rows alone: the block does not look there for a key that it knows to be dead.
  await api().db('api_keys').where({ id: dead.id }).update({ revoked_at: null })
  t.is((await api().as(dead.key).get('/v2/users/me')).status, 401)
  t.is((await api().as(ana.key).get('/v2/users/me')).status, 200)
})

test('a caller that keeps trying ended sessions is refused without a lookup, and its new session works', async t => {
  const undo: (() => Promise<unknown>)[] = []
  const { db } = api()
  const own = await openApiFor({ db, url: db.client.config.connection.connectionString }, {}, undo)
  const [ana, bob] = [await own.makeUser(), await own.makeUser()]
  await revokeSession(db, ana.sessionId)
  for (let i = 0; i < 25; i++) t.is((await own.as(ana.session).get('/v2/users/me')).status, 401)
  await db('sessions').where({ id: ana.sessionId }).update({ revoked_at: null })
  t.is((await own.as(ana.session).get('/v2/users/me')).status, 401)
  t.is((await own.as(bob.session).get('/v2/users/me')).status, 200)
  for (const step of undo.reverse()) await step()
})

const now = (): number => Math.floor(Date.now() / 1000)
