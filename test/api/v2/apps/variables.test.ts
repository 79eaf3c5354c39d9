import test from 'ava'
import { type Actor, type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi()

async function make(language?: 'static') {
  const user = await api().makeUser()
  const app = await api().makeApp(user, language && { language, main: 'index.html' })
  return { user, app, path: `/v2/apps/${app.id}/envs`, as: api().as(user) }
}
const send = (as: Actor, method: string, path: string, envs: unknown) =>
  as.request(method, path, { body: JSON.stringify({ envs }) })

test('variables are read, merged, replaced, removed, and every answer is the whole map', async t => {
  const { as, path, app } = await make()
  const answers: [string, unknown, Record<string, string>][] = [
    ['GET', undefined, {}],
    ['POST', { B: '2', A: '1' }, { A: '1', B: '2' }],
    ['POST', {}, { A: '1', B: '2' }],
    ['POST', { B: 'ü\n"', C: '' }, { A: '1', B: 'ü\n"', C: '' }],
    ['DELETE', ['A', 'UNKNOWN', 'A'], { B: 'ü\n"', C: '' }],
    ['PUT', { D: '4' }, { D: '4' }],
    ['GET', undefined, { D: '4' }],
    ['PUT', {}, {}],
    ['DELETE', ['D'], {}],
  ]
  for (const [method, envs, expected] of answers) {
    const answer = await (method === 'GET' ? as.get(path) : send(as, method, path, envs))
    t.deepEqual([answer.status, answer.body], [200, { status: 'success', response: expected }], `${method} ${envs}`)
  }
  const stored = await api().db('apps').where({ id: app.id }).first()
  t.is(stored.variables_version, 5)
})

test('a change of variables without a difference has no entry in the audit record', async t => {
  const { as, path, app } = await make()
  const same = [
    ['POST', { A: '1' }],
    ['POST', {}],
    ['PUT', { A: '1' }],
    ['DELETE', ['B']],
  ] as const
  for (const [method, envs] of [['PUT', { A: '1' }] as const, ...same]) await send(as, method, path, envs)
  const actions = async () => (await api().db('audit').where({ resource: app.id })).map(({ action }) => action)
  t.deepEqual(await actions(), ['apps.envs.replace'])
  await send(as, 'DELETE', path, ['A'])
  t.deepEqual(await actions(), ['apps.envs.replace', 'apps.envs.remove'])
})

test('names of object properties are names like any other', async t => {
  const { as, path } = await make()
  const text = '{"__proto__":"p","constructor":"c","hasOwnProperty":"h"}'
  for (const method of ['POST', 'PUT']) {
    const answer = await as.request(method, path, { body: `{"envs":${text}}` })
    t.is(answer.text, `{"status":"success","response":${text}}`)
  }
  t.is((await as.get(path)).text, `{"status":"success","response":${text}}`)
  const left = await send(as, 'DELETE', path, ['__proto__'])
  t.deepEqual(left.body.response, { constructor: 'c', hasOwnProperty: 'h' })
  t.is((await as.request('POST', path, { body: '{"__proto__":{"envs":{"A":"1"}}}' })).body.code, 'INVALID_ENV_CONTENT')
})

test('every refusal has its code, and changes nothing', async t => {
  const { as, path } = await make()
  await send(as, 'PUT', path, { KEPT: 'yes' })
  const many = Object.fromEntries(Array.from({ length: 256 }, (_, n) => [`V${n}`, 'x']))
  const refusals: [string, unknown, string][] = [
    ['POST', undefined, 'INVALID_ENV_CONTENT'],
    ['POST', ['A'], 'INVALID_ENV_CONTENT'],
    ['PUT', { 'A-B': 'x' }, 'INVALID_ENV_CONTENT'],
    ['PUT', { A: 5 }, 'INVALID_ENV_CONTENT'],
    ['POST', { A: '\0' }, 'INVALID_ENV_CONTENT'],
    ['POST', { ['A'.repeat(1025)]: 'x' }, 'ENV_NAME_TOO_LONG'],
    ['PUT', { A: 'x'.repeat(4097) }, 'ENV_CONTENT_TOO_LONG'],
    ['PUT', { ...many, MORE: 'x' }, 'TOO_MANY_ENV_VARS'],
    ['POST', many, 'TOO_MANY_ENV_VARS'],
    ['DELETE', undefined, 'INVALID_ENV_CONTENT'],
    ['DELETE', { KEPT: 'yes' }, 'INVALID_ENV_CONTENT'],
    ['DELETE', ['A'.repeat(1025)], 'ENV_NAME_TOO_LONG'],
  ]
  for (const [method, envs, code] of refusals) {
    const answer = await send(as, method, path, envs)
    t.deepEqual([answer.status, answer.body.code], [400, code], `${method} ${JSON.stringify(envs)?.slice(0, 40)}`)
  }
  t.is((await as.request('PUT', path, { body: '{' })).body.code, 'INVALID_JSON_BODY')
  t.deepEqual((await as.get(path)).body.response, { KEPT: 'yes' })
  t.is((await send(as, 'PUT', path, many)).status, 200)
})

test('a static site has no variables, for any request', async t => {
  const { as, path } = await make('static')
  for (const [method, envs] of [
    ['POST', { A: '1' }],
    ['PUT', {}],
    ['DELETE', ['A']],
  ] as const) {
    const answer = await send(as, method, path, envs)
    t.deepEqual([answer.status, answer.body.code], [400, 'STATIC_APP_ENV_NOT_SUPPORTED'], method)
  }
  t.is((await as.get(path)).body.code, 'STATIC_APP_ENV_NOT_SUPPORTED')
})

test('the largest legal set passes in its longest spelling; past 8 MB nothing is read', async t => {
  const { as, path } = await make()
  const names = ['__proto__', ...Array.from({ length: 255 }, (_, n) => `V${n}`.padEnd(1024, '_'))]
  const body = JSON.stringify({ envs: Object.fromEntries(names.map(name => [name, 'a'.repeat(4096)])) })
  const spelled = body.replaceAll('a'.repeat(4096), '\\u0061'.repeat(4096))
  t.true(spelled.length > 6 * 1024 * 1024)
  const answer = await as.request('PUT', path, { body: spelled })
  t.is(answer.status, 200)
  t.deepEqual(Object.keys(answer.body.response).sort(), [...names].sort())
  const larger = await as.request('PUT', path, { body: `{"envs":{},"more":"${'x'.repeat(8 * 1024 * 1024)}"}` })
  t.deepEqual([larger.status, larger.body.code], [413, 'PAYLOAD_TOO_LARGE'])
})

test('rights and limits are checked before the body, and an invalid body counts', async t => {
  const { user, app, path } = await make()
  const stranger = await api().makeUser()
  const reader = await api().makeKey(user, { scopes: ['envs:read'] })
  const other = await api().makeKey(user, { scopes: ['envs:write'], resources: ['f'.repeat(24)] })
  const invalid = `{"envs":{"A":${'x'.repeat(3 * 1024 * 1024)}`
  const asked = async (who: string | TestUser | undefined) => {
    const answer = await api().as(who).request('POST', path, { body: invalid })
    return [answer.status, answer.body.code]
  }
  t.deepEqual(await asked(undefined), [401, 'ACCESS_DENIED'])
  t.deepEqual(await asked(reader.key), [403, 'MISSING_SCOPE'])
  t.deepEqual(await asked(other.key), [403, 'RESOURCE_NOT_ALLOWED'])
  t.deepEqual(await asked(stranger), [404, 'APP_NOT_FOUND'])
  t.deepEqual(await asked(user), [400, 'INVALID_JSON_BODY'])
  const counted = async () => {
    const row = await api()
      .db('rate_limits')
      .where({ key: `budget/${user.id}` })
      .first()
    return Number(row.used)
  }
  const before = await counted()
  await asked(user)
  t.is(await counted(), before + 1)
  await api()
    .db('rate_limits')
    .where({ key: `budget/${user.id}` })
    .update({ used: 1_000_000_000 })
  t.deepEqual(await asked(user), [429, 'RATE_LIMIT'])
  t.is((await api().db('apps').where({ id: app.id }).first()).variables_version, 0)
})

test('while another change of the application is in progress, its variables are busy', async t => {
  const { as, path, app } = await make()
  const change: [string, unknown][] = [
    ['POST', { A: '1' }],
    ['PUT', { A: '1' }],
    ['DELETE', ['A']],
  ]
  await api().db.transaction(async trx => {
    await trx('apps').where({ id: app.id }).forUpdate().first('id')
    const answers = await Promise.all(change.map(([method, envs]) => send(as, method, path, envs)))
    for (const { status, body } of answers) t.deepEqual([status, body.code], [409, 'ENV_BUSY'])
  })
  t.is((await send(as, 'PUT', path, { A: '1' })).status, 200)
})

test('a variable that cannot be decrypted is named, and can be set again', async t => {
  const { as, path, app } = await make()
  await send(as, 'PUT', path, { GOOD: '1', SPOILT: '2' })
  const spoil = () =>
    api()
      .db('app_variables')
      .where({ app_id: app.id, name: 'SPOILT' })
      .update({ value_sealed: Buffer.alloc(60, 1) })
  await spoil()
  const answers = [
    await as.get(path),
    await send(as, 'POST', path, { GOOD: '3' }),
    await send(as, 'DELETE', path, ['GOOD']),
  ]
  for (const answer of answers) {
    t.deepEqual([answer.status, answer.body.code], [400, 'READ_FAILED'])
    t.regex(answer.body.message, /SPOILT/)
  }
  t.deepEqual((await send(as, 'POST', path, { SPOILT: '4' })).body.response, { GOOD: '1', SPOILT: '4' })
  await spoil()
  t.deepEqual((await send(as, 'PUT', path, { GOOD: '5' })).body.response, { GOOD: '5' })
})
