import { createHash, randomBytes } from 'node:crypto'
import test from 'ava'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi()

const redirect_uri = 'http://127.0.0.1:7777/back?x=1'
const post = (path: string, body: object, who?: string) =>
  api().as(who).post(`/v2/account/authorize${path}`, JSON.stringify(body))

const program = () => {
  const verifier = randomBytes(32).toString('base64url')
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
}

const asked = (challenge: string) => ({
  client_id: 'berth-cli',
  redirect_uri,
  scopes: ['apps:read', 'account:read'],
  challenge,
  challenge_method: 'S256',
})

async function started() {
  const { verifier, challenge } = program()
  const { code, display } = (await post('/start', asked(challenge))).body.response
  const claim = (changes = {}) => post('/claim', { code, verifier, redirect_uri, ...changes })
  const decide = (who: TestUser, granted = true) => post('', { code, granted }, who.session)
  return { code, display, claim, decide }
}

test('a program is granted a key with the scopes that it requested, for 90 days', async t => {
  const ana = await api().makeUser()
  const { code, display, claim, decide } = await started()
  t.regex(display, /^[B-Z]{4}-[B-Z]{4}$/)
  t.deepEqual([(await claim()).status, (await claim()).body.code], [400, 'AUTHORIZATION_PENDING'])
  const shown = (await api().as(ana.session).get(`/v2/account/authorize?code=${code}`)).body.response
  t.like(shown, { display, client_id: 'berth-cli', scopes: ['apps:read', 'account:read'] })
  t.is((await decide(ana)).body.response.redirect, `http://127.0.0.1:7777/back?x=1&code=${code}`)
  const { api_key, account, scopes, expires_at } = (await claim()).body.response
  t.is(account.id, ana.id)
  t.deepEqual(scopes, ['apps:read', 'account:read'])
  t.is(Math.round((Date.parse(expires_at) - Date.now()) / 86_400_000), 90)
  t.is((await api().as(api_key).get('/v2/users/me')).status, 200)
  t.is((await api().as(api_key).get('/v2/account/apikey')).status, 401)
  t.is((await api().as(api_key).post('/v2/apps')).body.code, 'MISSING_SCOPE')
  const granted = await api().db('api_keys').where({ user_id: ana.id, granted_to: 'berth-cli' }).first()
  t.like((await api().as(ana.key).get('/v2/account/audit')).body.response.entries, {
    length: 2,
    0: { actor: ana.id, action: 'account.authorize.claim', resource: granted.id },
    1: { actor: ana.id, action: 'account.authorize.decide', result: 'success' },
  })
})

test('a claim that is repeated within a minute returns the same key with a new secret; later it is refused', async t => {
  const ana = await api().makeUser()
  const { claim, decide } = await started()
  await decide(ana)
  const first = (await claim()).body.response.api_key
  const second = (await claim()).body.response.api_key
  t.not(first, second)
  t.is((await api().as(first).get('/v2/users/me')).status, 401)
  t.is((await api().as(second).get('/v2/users/me')).status, 200)
  await api()
    .db('authorizations')
    .update({ claimed_at: new Date(Date.now() - 61_000) })
    .where({ user_id: ana.id })
  t.is((await claim()).body.code, 'INVALID_GRANT')
  t.is((await api().as(second).get('/v2/users/me')).status, 200)
})

test('an account that was blocked after it granted a key has none', async t => {
  const ana = await api().makeUser()
  const { claim, decide } = await started()
  await decide(ana)
  await api().db('users').where({ id: ana.id }).update({ blocked_at: new Date() })
  t.is((await claim()).body.code, 'INVALID_GRANT')
  t.is((await api().db('api_keys').where({ user_id: ana.id, granted_to: 'berth-cli' })).length, 0)
})

test('concurrent claims leave one live secret', async t => {
  const ana = await api().makeUser()
  const { claim, decide } = await started()
  await decide(ana)
  const keys = (await Promise.all(Array.from({ length: 8 }, () => claim()))).map(answer => answer.body.response.api_key)
  const live = await Promise.all(keys.map(async key => (await api().as(key).get('/v2/users/me')).status))
  t.is(live.filter(status => status === 200).length, 1)
  t.is((await api().db('api_keys').where({ user_id: ana.id, granted_to: 'berth-cli' })).length, 1)
})

test('five wrong claims end the grant', async t => {
  const ana = await api().makeUser()
  const { claim, decide } = await started()
  await decide(ana)
  t.is((await claim({ verifier: 'x' })).body.code, 'INVALID_VERIFIER')
  t.is((await claim({ verifier: undefined })).body.code, 'INVALID_REQUEST')
  t.is((await claim({ redirect_uri: 'http://127.0.0.1:7777/' })).body.code, 'INVALID_REDIRECT_URI')
  t.is((await claim({ verifier: 7 })).body.code, 'INVALID_REQUEST')
  t.is((await claim({ verifier: 'y' })).body.code, 'INVALID_VERIFIER')
  t.is((await claim()).body.code, 'INVALID_GRANT')
})

test('a denied, an unknown and an old grant are answered alike', async t => {
  const ana = await api().makeUser()
  const denied = await started()
  t.is((await denied.decide(ana, false)).body.response.redirect, 'http://127.0.0.1:7777/back?x=1&error=access_denied')
  t.is((await denied.claim()).body.code, 'INVALID_GRANT')
  t.is((await denied.decide(ana)).body.code, 'INVALID_GRANT', 'decided once')
  t.is((await denied.claim({ code: 'a'.repeat(64) })).body.code, 'INVALID_GRANT')
  const unknown = await api()
    .as(ana.session)
    .get(`/v2/account/authorize?code=${'a'.repeat(64)}`)
  t.is(unknown.body.code, 'INVALID_GRANT')
  const old = await started()
  await old.decide(ana)
  await api()
    .db('authorizations')
    .where({ user_id: ana.id })
    .update({ expires_at: new Date(0) })
  t.is((await old.claim()).body.code, 'INVALID_GRANT')
})

test('an account has five such keys; one that is revoked makes room within the minute', async t => {
  const ana = await api().makeUser()
  for (let n = 0; n < 5; n++) {
    const { claim, decide } = await started()
    await decide(ana)
    t.is((await claim()).status, 200)
  }
  const { claim, decide } = await started()
  await decide(ana)
  t.deepEqual([(await claim()).status, (await claim()).body.code], [403, 'APIKEY_LIMIT_REACHED'])
  const [key] = await api().db('api_keys').where({ user_id: ana.id }).whereNotNull('granted_to')
  await api().db('api_keys').where({ id: key.id }).update({ revoked_at: new Date() })
  t.is((await claim()).status, 200)
})

test('only a program on loopback may request a key, and only for existing scopes', async t => {
  const { challenge } = program()
  const codeOf = async (changes: object) => (await post('/start', { ...asked(challenge), ...changes })).body.code
  for (const uri of [
    'https://127.0.0.1/',
    'http://example.org/',
    'http://127.0.0.1.example.org/',
    'http://user@127.0.0.1/',
    'http://127.0.0.1/#x',
    'javascript:alert(1)',
    'nonsense',
    7,
    undefined,
  ])
    t.is(await codeOf({ redirect_uri: uri }), 'INVALID_REDIRECT_URI', String(uri))
  for (const uri of ['http://localhost:1/', 'http://[::1]:80/x']) t.is(await codeOf({ redirect_uri: uri }), undefined)
  for (const scopes of [[], ['nonsense'], 'apps:read', undefined]) t.is(await codeOf({ scopes }), 'INVALID_SCOPE')
  for (const change of [
    { client_id: '' },
    { client_id: ' ' },
    { client_id: 'a\nb' },
    { challenge: 'x' },
    { challenge_method: 'plain' },
  ])
    t.is(await codeOf(change), 'INVALID_REQUEST', JSON.stringify(change))
})

test('an API key cannot grant more keys', async t => {
  const ana = await api().makeUser()
  const { code } = await started()
  t.is((await post('', { code, granted: true }, ana.key)).status, 401)
})
