import test from 'ava'
import { z } from 'zod'
import { endpoint } from '../../../api/pipeline/endpoint.ts'
import { CodedError } from '../../../policy/errors.ts'
import { testApi } from '../../kit/actors/api.ts'

const echo = endpoint({
  name: 'test.echo',
  method: 'DELETE',
  path: '/v2/echo',
  summary: 'Gives a body back',
  auth: { scope: 'files:write' },
  body: z.object({
    path: z.string({ error: 'INVALID_FILE' }).max(10, 'INVALID_FILE').optional(),
    any: z.record(z.string(), z.any()).optional(),
    count: z.int().optional(),
  }),
  response: z.any(),
  errors: ['INVALID_FILE'],
  async handle({ body }) {
    return body
  },
})

const broken = endpoint({
  name: 'test.broken',
  method: 'GET',
  path: '/v2/broken/{how}',
  summary: 'Throws',
  auth: { scope: null },
  errors: ['CLUSTER_UNAVAILABLE', 'INVALID_INPUT'],
  async handle({ exchange }, { db }) {
    if (exchange.path.how === 'sql') await db.raw('select secret from nowhere')
    if (exchange.path.how === 'text') await db.raw('select ?::text', ['a\0b'])
    if (exchange.path.how === 'away') throw new CodedError('CLUSTER_UNAVAILABLE')
    if (exchange.path.how === 'null') throw null
    throw new Error('a secret at /etc/passwd')
  },
})

const session = endpoint({
  name: 'test.session',
  method: 'PATCH',
  path: '/v2/session',
  summary: 'Needs a session',
  auth: 'session',
  async handle() {},
})

const api = testApi({ extra: [echo, broken, session] })

test('JSON is recognized by its content, not by its type, with DELETE too', async t => {
  const ana = await api().makeUser()
  for (const type of [
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/octet-stream',
    'nonsense',
  ]) {
    const answer = await api()
      .as(ana)
      .request('DELETE', '/v2/echo', { body: Buffer.from('{"path":"/a"}'), headers: { 'content-type': type } })
    t.deepEqual(answer.body, { status: 'success', response: { path: '/a' } }, type)
  }
  t.deepEqual((await api().as(ana).delete('/v2/echo')).body.response, {})
})

test('hostile bodies are 400, and the process survives', async t => {
  const ana = await api().makeUser()
  const deep = (levels: number) => `{"any":${'{"a":'.repeat(levels - 2)}{}${'}'.repeat(levels - 2)}}`
  const cases: [string | Buffer, string][] = [
    ['{', 'INVALID_JSON_BODY'],
    ['[]', 'INVALID_JSON_BODY'],
    ['null', 'INVALID_JSON_BODY'],
    ['"text"', 'INVALID_JSON_BODY'],
    ['12', 'INVALID_JSON_BODY'],
    ['{"path":"a"}x', 'INVALID_JSON_BODY'],
    [Buffer.from([0x7b, 0xff, 0x7d]), 'INVALID_JSON_BODY'],
    [deep(65), 'INVALID_JSON_BODY'],
    ['{"any":'.repeat(100_000), 'INVALID_JSON_BODY'],
    [`{"any":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, 'INVALID_JSON_BODY'],
    ['{"path":5}', 'INVALID_FILE'],
    ['{"path":"12345678901"}', 'INVALID_FILE'],
    ['{"path":"a\\u0000"}', 'INVALID_FILE'],
    ['{"path":"\\ud800"}', 'INVALID_FILE'],
    ['{"any":{"x":{"y":"\\udc00"}}}', 'INVALID_INPUT'],
    ['{"any":{"\\u0000":1}}', 'INVALID_INPUT'],
    ['{"count":1.5}', 'INVALID_PARAMETERS'],
    ['{"count":"1"}', 'INVALID_PARAMETERS'],
  ]
  for (const [body, code] of cases) {
    const answer = await api().as(ana).request('DELETE', '/v2/echo', { body })
    t.is(answer.status, 400, String(body).slice(0, 60))
    t.is(answer.body.code, code, String(body).slice(0, 60))
    t.notRegex(answer.text, /zod|expected|invalid_type/i)
  }
  t.is(
    (
      await api()
        .as(ana)
        .request('DELETE', '/v2/echo', { body: deep(64) })
    ).status,
    200,
  )
  t.is((await api().as(ana).request('DELETE', '/v2/echo', { body: '{"path":"😀"}' })).body.response.path, '😀')
})

test('__proto__ is dropped, unknown fields are ignored', async t => {
  const ana = await api().makeUser()
  const body = '{"any":{"__proto__":{"admin":true},"a":{"__proto__":1,"b":2}},"__proto__":{"x":1},"owner":"me"}'
  const answer = await api().as(ana).request('DELETE', '/v2/echo', { body })
  t.deepEqual(answer.body.response, { any: { a: { b: 2 } } })
})

test('compressed and oversized bodies are refused before they are read', async t => {
  const ana = await api().makeUser()
  const zipped = await api()
    .as(ana)
    .request('DELETE', '/v2/echo', { body: '{}', headers: { 'content-encoding': 'gzip' } })
  t.is(zipped.status, 415)
  t.is(zipped.body.code, 'INVALID_CONTENT_TYPE')
  t.is(
    (
      await api()
        .as(ana)
        .request('DELETE', '/v2/echo', { body: '{}', headers: { 'content-encoding': 'identity' } })
    ).status,
    200,
  )
  const large = await api()
    .as(ana)
    .request('DELETE', '/v2/echo', { body: `{"path":"${'x'.repeat(1024 * 1024)}"}` })
  t.is(large.status, 413)
  t.is(large.body.code, 'PAYLOAD_TOO_LARGE')
  const stream = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 20; i++) controller.enqueue(new Uint8Array(65_536).fill(32))
      controller.close()
    },
  })
  const chunked = await api()
    .as(ana)
    .request('DELETE', '/v2/echo', { body: stream, duplex: 'half' } as RequestInit)
  t.is(chunked.status, 413)
})

test('the caller is checked first, then the scope, then the body', async t => {
  const ana = await api().makeUser()
  const reader = await api().makeKey(ana, { scopes: ['files:read'] })
  const large = `{"path":"${'x'.repeat(3 * 1024 * 1024)}"}`
  t.is((await api().as(undefined).request('DELETE', '/v2/echo', { body: large })).status, 401)
  const unscoped = await api().as(reader.key).request('DELETE', '/v2/echo', { body: large })
  t.is(unscoped.status, 403)
  t.is(unscoped.body.code, 'MISSING_SCOPE')
})

test('an internal error is 500 without its cause; a text that the database refuses is 400', async t => {
  const ana = await api().makeUser()
  for (const how of ['error', 'sql', 'null']) {
    const answer = await api().as(ana).get(`/v2/broken/${how}`)
    t.is(answer.status, 500)
    t.is(answer.body.code, 'INTERNAL_SERVER_ERROR')
    t.notRegex(answer.text, /secret|nowhere|stack/)
  }
  const text = await api().as(ana).get('/v2/broken/text')
  t.is(text.status, 400)
  t.is(text.body.code, 'INVALID_INPUT')
  const away = await api().as(ana).get('/v2/broken/away')
  t.is(away.status, 503)
  t.truthy(away.headers.get('retry-after'))
})

test('an endpoint without a scope requires a key with full access', async t => {
  const ana = await api().makeUser()
  const limited = await api().makeKey(ana, { scopes: ['apps:read'] })
  t.is((await api().as(limited.key).get('/v2/broken/away')).body.code, 'MISSING_SCOPE')
})

test('a session route refuses keys and says why', async t => {
  const ana = await api().makeUser()
  const byKey = await api().as(ana.key).request('PATCH', '/v2/session')
  t.is(byKey.status, 401)
  t.regex(byKey.body.message, /session token/)
  t.is((await api().as(ana.session).request('PATCH', '/v2/session')).status, 200)
})

test('unknown routes and methods are 404 ROUTE_NOT_FOUND', async t => {
  const ana = await api().makeUser()
  for (const [method, path] of [
    ['GET', '/'],
    ['GET', '/v2/nothing'],
    ['PUT', '/v2/apps'],
    ['POST', '/v2/users/me'],
    ['GET', '/v2/users/me/'],
    ['GET', '/v2/apps/%zz'],
    ['OPTIONS', '/v2/apps'],
  ] as const) {
    const answer = await api().as(ana).request(method, path)
    t.is(answer.status, 404, `${method} ${path}`)
    t.is(answer.body.code, 'ROUTE_NOT_FOUND', `${method} ${path}`)
  }
})
