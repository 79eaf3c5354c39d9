import test from 'ava'
import { openApiFor, testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

const patch = (session: string, path: string, body: object) =>
  api()
    .as(session)
    .request('PATCH', path, { body: JSON.stringify(body) })

test('a new key replaces the one with full access and leaves limited keys', async t => {
  const ana = await api().makeUser()
  const limited = await Promise.all(
    [{ scopes: ['account:read' as const] }, { prefixes: ['a/'] }].map(limits => api().makeKey(ana, limits)),
  )
  const { status, body } = await api().as(ana.session).get('/v2/account/apikey')
  t.is(status, 200)
  t.is(body.response.apiKey.split('-')[0], ana.id)
  t.is((await api().as(body.response.apiKey).get('/v2/users/me')).status, 200)
  for (const { key } of limited) t.is((await api().as(key).get('/v2/users/me')).status, 200)
  t.is((await api().as(ana.key).get('/v2/users/me')).body.code, 'ACCESS_DENIED')
})

test('concurrent rotations leave one key with full access', async t => {
  const { db } = api()
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    for (const step of undo.reverse()) await step()
  })
  // In a process where the limit of two a minute is in nobody's way.
  const generous = await openApiFor({ db, url: db.client.config.connection.connectionString }, { scale: 1000 }, undo)
  const ana = await generous.makeUser()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => generous.as(ana.session).get('/v2/account/apikey')),
  )
  t.deepEqual(
    answers.map(answer => answer.status),
    Array(20).fill(200),
  )
  const keys = answers.map(({ body }) => body.response.apiKey as string)
  t.is((await db('api_keys').where({ user_id: ana.id, revoked_at: null, scopes: null })).length, 1)
  const alive = await Promise.all(keys.map(async key => (await generous.as(key).get('/v2/users/me')).status))
  t.deepEqual(alive.sort(), [200, ...Array(19).fill(401)])
})

test('the third rotation within a minute is refused for five minutes', async t => {
  const ana = await api().makeUser()
  for (let n = 0; n < 2; n++) t.is((await api().as(ana.session).get('/v2/account/apikey')).status, 200)
  const refused = await api().as(ana.session).get('/v2/account/apikey')
  t.deepEqual([refused.status, refused.body.code], [429, 'RATE_LIMIT'])
  t.true(Number(refused.headers.get('retry-after')) > 290)
})

test('an API key may change none of it, and the refusal says why', async t => {
  const ana = await api().makeUser()
  for (const [method, path, body] of [
    ['GET', '/v2/account/apikey', undefined],
    ['PATCH', '/v2/account/locale', { locale: 'pt-BR' }],
    ['PATCH', '/v2/account/username', { username: 'Bea' }],
  ] as const) {
    const answer = await api()
      .as(ana.key)
      .request(method, path, body && { body: JSON.stringify(body) })
    t.deepEqual([answer.status, answer.body.code], [401, 'ACCESS_DENIED'])
    t.regex(answer.body.message, /session token/)
  }
})

test('the language changes to one of four', async t => {
  const ana = await api().makeUser()
  const set = (locale: unknown) => patch(ana.session, '/v2/account/locale', { locale })
  const shown = async () => (await api().as(ana.session).get('/v2/users/me')).body.response.user.locale
  t.is(await shown(), 'en-US')
  t.deepEqual((await set('pt-BR')).body, { status: 'success', response: { locale: { old: 'en-US', new: 'pt-BR' } } })
  t.is(await shown(), 'pt-BR', 'to the session that changed it, at once')
  t.is((await set('pt-BR')).body.code, 'SAME_LOCALE')
  t.is((await set('de-DE')).body.code, 'INVALID_LOCALE')
  t.is((await set(7)).body.code, 'INVALID_LOCALE')
  t.is((await set('zh-CN')).body.code, 'KEEP_CALM')
  t.is((await api().as(ana).get('/v2/users/me')).body.response.user.locale, 'pt-BR')
})

test('the name is stored in its composed form', async t => {
  const ana = await api().makeUser({ name: 'Ana' })
  const set = (username: unknown) => patch(ana.session, '/v2/account/username', { username })
  t.deepEqual((await set('Joa\u0303o')).body.response, { username: { old: 'Ana', new: 'João' } })
  t.is((await set('João')).body.code, 'SAME_USERNAME')
  t.is((await set('x'.repeat(25))).body.code, 'INVALID_USERNAME')
  for (const refused of ['', 'a  b', 7]) t.is((await set(refused)).body.code, 'INVALID_USERNAME')
  t.is((await set('João')).body.code, 'SAME_USERNAME')
  const answers = await Promise.all(['Bea', 'Cleo', 'Dora'].map(set))
  t.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 429], 'three changes a day, whatever was refused')
  t.is((await set('Eva')).body.code, 'KEEP_CALM')
})
