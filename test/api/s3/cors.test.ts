import test from 'ava'
import { parseConfig } from '../../../policy/config.ts'
import { testApi } from '../../kit/actors/api.ts'
import { elementsOf, s3Account } from '../../kit/s3/account.ts'

const origins = 'public=*; private=https://a.example https://b.example:8443'
const { blob } = parseConfig({ BERTH_MASTER_KEY: 'a'.repeat(64), S3_CORS_ORIGINS: origins }, '/')
const api = testApi({ config: { blob } })

const preflight = (path: string, headers: Record<string, string> = {}) =>
  fetch(api().s3Url + path, {
    method: 'OPTIONS',
    headers: { origin: 'https://a.example', 'access-control-request-method': 'PUT', ...headers },
  })

const cors = (headers: Headers) =>
  Object.fromEntries([...headers].filter(([name]) => /^(access-control-|vary)/.test(name)))

test('a preflight of an origin that the bucket allows names what its pages may send, without a signature', async t => {
  const own = await preflight('/private/any/key', { 'access-control-request-headers': 'authorization,x-amz-date' })
  t.is(own.status, 200)
  t.like(cors(own.headers), {
    'access-control-allow-origin': 'https://a.example',
    'access-control-allow-methods': 'GET, HEAD, PUT, POST, DELETE',
    'access-control-allow-headers': 'authorization,x-amz-date',
    'access-control-max-age': '3600',
    vary: 'Origin',
  })
  const second = await preflight('/private', { origin: 'https://b.example:8443' })
  t.is(second.headers.get('access-control-allow-origin'), 'https://b.example:8443')
  const any = await preflight('/public/x', { origin: 'https://anyone.example' })
  t.is(any.headers.get('access-control-allow-origin'), '*')
  t.is(any.headers.get('vary'), null, 'the answer is the same for everyone')
})

test('a preflight of another origin, or for another bucket, is refused without CORS headers', async t => {
  const cases: [path: string, headers: Record<string, string>][] = [
    ['/private/x', { origin: 'https://c.example' }],
    ['/private/x', { origin: 'http://a.example' }],
    ['/private/x', { origin: 'https://b.example' }],
    ['/private/x', { origin: 'null' }],
    ['/legacy/x', {}],
    ['/', {}],
    ['/constructor/x', {}],
    ['/__proto__/x', {}],
  ]
  for (const [path, headers] of cases) {
    const answer = await preflight(path, headers)
    t.is(answer.status, 403, path)
    t.deepEqual(cors(answer.headers), {}, path)
  }
  t.is((await fetch(`${api().s3Url}/public/x`, { method: 'OPTIONS' })).status, 403, 'no page has sent it')
})

test('only pages of allowed origins can read responses and errors', async t => {
  const { wire } = await s3Account(api())
  await wire.send('PUT', '/private/a', { body: 'x' })
  await wire.send('PUT', '/public/a', { body: 'x' })
  const get = (path: string, origin?: string) =>
    wire.send('GET', path, { headers: origin === undefined ? {} : { origin } })
  const allowed = await get('/private/a', 'https://a.example')
  t.is(allowed.headers['access-control-allow-origin'], 'https://a.example')
  t.regex(String(allowed.headers['access-control-expose-headers']), /ETag.*x-amz-request-id/)
  t.is(allowed.headers.vary, 'Origin')
  t.is((await get('/public/a', 'https://c.example')).headers['access-control-allow-origin'], '*')
  const missing = await get('/private/missing', 'https://a.example')
  t.deepEqual([missing.status, missing.headers['access-control-allow-origin']], [404, 'https://a.example'])
  const unsigned = await fetch(`${api().s3Url}/private/a`, { headers: { origin: 'https://a.example' } })
  t.deepEqual([unsigned.status, unsigned.headers.get('access-control-allow-origin')], [403, 'https://a.example'])
  for (const origin of ['https://c.example', undefined]) {
    const answer = await get('/private/a', origin)
    t.is(answer.status, 200, 'the signature decides')
    t.is(answer.headers['access-control-allow-origin'], undefined)
  }
})

test('a bucket without the setting has no configuration, and the others show theirs', async t => {
  const { wire } = await s3Account(api())
  t.deepEqual(elementsOf((await wire.send('GET', '/private?cors')).text, 'AllowedOrigin'), [
    'https://a.example',
    'https://b.example:8443',
  ])
  t.deepEqual(elementsOf((await wire.send('GET', '/public?cors')).text, 'AllowedOrigin'), ['*'])
  t.is((await wire.send('GET', '/legacy?cors')).code, 'NoSuchCORSConfiguration')
  t.is((await wire.send('PUT', '/private?cors', { body: 'x' })).code, 'NotImplemented')
})

test('a bucket named like a property of Object.prototype is unknown', async t => {
  const { wire } = await s3Account(api())
  for (const name of ['constructor', '__proto__', 'toString']) {
    const answer = await wire.send('GET', `/${name}`, { headers: { origin: 'https://a.example' } })
    t.deepEqual([answer.status, answer.code], [404, 'NoSuchBucket'], name)
  }
})
