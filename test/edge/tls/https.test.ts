import { once } from 'node:events'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import test from 'ava'
import { surfaceTargets } from '../../../edge/surfaces.ts'
import { askHttps, type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { ask, named, type Origin, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

/** An address of this machine that is not loopback: its clients count as another machine. */
const [elsewhere] = Object.values(networkInterfaces())
  .flatMap(all => all ?? [])
  .filter(({ family, internal }) => family === 'IPv4' && !internal)
  .map(({ address }) => address)
if (elsewhere === undefined) throw new Error('This test needs an IPv4 address other than loopback.')

let issuer: Issuer
let application: Origin
let api: Origin
const reached: string[] = []

test.before(async () => {
  issuer = await testIssuer()
  application = await startOrigin((incoming, answer) => {
    reached.push(String(incoming.url))
    const { 'x-forwarded-proto': scheme, 'x-forwarded-host': host, 'x-forwarded-for': client } = incoming.headers
    answer.end(JSON.stringify({ scheme, host, client, url: incoming.url }))
  })
  api = await named('api')
})
test.after.always(async () => {
  await application?.stop()
  await api?.stop()
})

/** A proxy with an application by three names, of which all but `plain.example.com` have a certificate. */
async function serving(settings: Record<string, string> = {}): Promise<TestProxy> {
  const ports = { base: api.port, blob: api.port, s3: api.port, files: api.port, public: api.port }
  const targets = surfaceTargets('127.0.0.1', [ports])
  const proxy = await startProxy({ EDGE_TLS: 'local', ...settings }, () => ({ targets }))
  for (const host of ['a.apps.localhost', 'shop.example.com', 'plain.example.com'])
    await proxy.edge.setRoute({ host, appId: 'a1', address: '127.0.0.1', port: application.port })
  for (const host of ['*.apps.localhost', 'shop.example.com', 'api.localhost'])
    await proxy.edge.setCertificate(await issuer.issue(host))
  return proxy
}

test('plain http is redirected for every name with a certificate, and served for others', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  for (const method of ['GET', 'POST', 'PUT', 'DELETE'])
    for (const host of ['a.apps.localhost', 'shop.example.com']) {
      const { status, headers, body } = await ask(proxy.port, host, { method, path: '/x%20y?a=%2F&b', body: 'abc' })
      t.deepEqual([status, headers.location], [308, `https://${host}:${proxy.tlsPort}/x%20y?a=%2F&b`])
      t.notRegex(body, /nginx/i)
    }
  t.is(JSON.parse((await ask(proxy.port, 'plain.example.com')).body).scheme, 'http')
  await proxy.edge.removeCertificate('shop.example.com')
  t.is((await ask(proxy.port, 'shop.example.com')).status, 200)
  // What is malformed is refused as everywhere.
  t.is(
    (await ask(proxy.port, 'a.apps.localhost', { headers: { 'content-length': '+1' } }).catch(() => null))?.status,
    400,
  )
})

test('the body of a redirected request is not read as the next request', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: plain.example.com\r\n\r\n'
  for (const path of ['/', '/.well-known/berth-check/abc']) {
    await proxy.edge.setAnswers({ 'acme-challenge': null, 'berth-check': 'proof' })
    const socket = connect(proxy.port, '127.0.0.1')
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    const head = `GET ${path} HTTP/1.1\r\nHost: a.apps.localhost\r\nContent-Length: ${hidden.length}\r\n\r\n`
    const last = 'GET /last HTTP/1.1\r\nHost: plain.example.com\r\nConnection: close\r\n\r\n'
    socket.write(head + hidden + last)
    await once(socket, 'close')
    t.deepEqual(text.match(/HTTP\/1\.1 \d+/g), [path === '/' ? 'HTTP/1.1 308' : 'HTTP/1.1 200', 'HTTP/1.1 200'])
  }
  t.false(reached.includes('/hidden'))
  t.true(reached.includes('/last'))
})

test('redirects lead to the port of EDGE_URL, and name none where it is 443', async t => {
  for (const [url, prefix] of [
    ['https://example.com', 'https://a.apps.localhost/'],
    ['https://example.com:444', 'https://a.apps.localhost:444/'],
  ] as const) {
    const proxy = await serving({ EDGE_URL: url })
    t.is((await ask(proxy.port, 'a.apps.localhost')).headers.location, prefix)
    await proxy.stop()
  }
})

test('by https an application learns the scheme, its host name and the client, whatever the client claims', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  const headers = { 'x-forwarded-proto': 'http', 'x-forwarded-for': '203.0.113.5', 'x-forwarded-host': 'other' }
  const { body } = await askHttps(proxy.tlsPort, 'shop.example.com', issuer.root, { headers, path: '/p?q' })
  t.deepEqual(JSON.parse(body), { scheme: 'https', host: 'shop.example.com', client: '127.0.0.1', url: '/p?q' })
  t.is((await askHttps(proxy.tlsPort, 'api.localhost', issuer.root)).body, 'api')
})

test('the platform’s own names refuse plain http of other machines and never redirect it', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  const refused = await ask(proxy.port, 'api.localhost', { from: elsewhere, headers: { authorization: 'key' } })
  t.is(refused.status, 400)
  t.regex(refused.body, /requires https/)
  t.is(refused.headers.connection, 'close')
  t.is((await ask(proxy.port, 'api.localhost')).body, 'api', 'of this machine')
  t.is((await askHttps(proxy.tlsPort, 'api.localhost', issuer.root, { from: elsewhere })).body, 'api')
  // A malformed request by https is no matter of plain http.
  const odd = await askHttps(proxy.tlsPort, 'api.localhost', issuer.root, { from: elsewhere, headers: { host: 'b' } })
  t.notRegex(odd.body, /requires https/)
  t.is((await ask(proxy.port, 'plain.example.com', { from: elsewhere })).status, 200, 'of applications')
  const allowed = await serving({ ALLOW_PLAIN_HTTP: 'on' })
  t.teardown(allowed.stop)
  t.is((await ask(allowed.port, 'api.localhost', { from: elsewhere })).body, 'api')
})

test('requests whose TLS terminates before the proxy are not redirected to https again', async t => {
  const proxy = await serving({ EDGE_TRUSTED_PROXIES: String(elsewhere) })
  t.teardown(proxy.stop)
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.5' }
  const call = { from: elsewhere, headers }
  const { body } = await ask(proxy.port, 'a.apps.localhost', call)
  t.like(JSON.parse(body), { scheme: 'https', client: '203.0.113.5' })
  t.is((await ask(proxy.port, 'api.localhost', call)).body, 'api')
  t.is((await ask(proxy.port, 'a.apps.localhost', { headers })).status, 308, 'others may claim what they want')
})

test('challenges and checks are answered by the proxy, on every port and before any redirect', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  const acme = '/.well-known/acme-challenge/token-1_x'
  const check = '/.well-known/berth-check/n0nce'
  const plain = async (host: string, path: string) => (await ask(proxy.port, host, { path })).body
  t.regex(await plain('plain.example.com', acme), /"url":"\/\.well-known/, 'nothing to answer yet')
  await proxy.edge.setAnswers({ 'acme-challenge': 'thumb', 'berth-check': 'proof' })
  for (const host of ['shop.example.com', 'plain.example.com', 'unknown.example.com', 'api.localhost']) {
    t.is(await plain(host, acme), 'token-1_x.thumb', host)
    t.is(await plain(host, check), 'n0nce.proof', host)
  }
  t.is((await askHttps(proxy.tlsPort, 'shop.example.com', issuer.root, { path: acme })).body, 'token-1_x.thumb')
  const answer = await ask(proxy.port, 'api.localhost', { path: acme, from: elsewhere })
  t.like(answer, { status: 200, body: 'token-1_x.thumb' })
  t.like(answer.headers, {
    'content-type': 'text/plain',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  t.is((await ask(proxy.port, 'shop.example.com', { path: acme, method: 'HEAD' })).status, 200)
  t.is((await askHttps(proxy.tlsPort, 'a.apps.localhost', issuer.root, { path: acme })).body, 'token-1_x.thumb')
  t.is(await plain('a.apps.localhost', check), 'n0nce.proof')
  // Whatever else is asked for there belongs to the application.
  for (const path of [
    `${acme}/more`,
    '/.well-known/acme-challenge/',
    '/.well-known/other/x',
    `${acme}%3Cb%3E`,
    '/.well-known/',
  ])
    t.regex(await plain('plain.example.com', path), /"url":"\/\.well-known/, path)
  t.regex((await ask(proxy.port, 'plain.example.com', { path: acme, method: 'POST' })).body, /"url"/)
  t.regex(await plain('plain.example.com', `/.well-known/berth-check/${'x'.repeat(257)}`), /"url"/)
  await proxy.edge.setAnswers({ 'acme-challenge': null, 'berth-check': null })
  // With an answer of its own an application could prove a name of the operator's domain to an authority.
  for (const [path, method] of [[acme], [`${acme}/more`], ['/.well-known/acme-challenge%2Fx'], [acme, 'POST']] as const)
    t.is(
      (await askHttps(proxy.tlsPort, 'a.apps.localhost', issuer.root, { path, ...(method && { method }) })).status,
      404,
      path,
    )
  t.is((await ask(proxy.port, 'b.apps.localhost', { path: acme })).status, 404)
  t.regex(await plain('plain.example.com', check), /"url":"\/\.well-known/)
})

test('plain http on the port of https is answered with our page', async t => {
  const proxy = await serving()
  t.teardown(proxy.stop)
  const { status, body } = await ask(proxy.tlsPort, 'a.apps.localhost')
  t.is(status, 400)
  t.regex(body, /This request is malformed/)
  t.notRegex(body, /nginx/i)
})

test('with TLS off nothing is redirected, whatever certificates there are', async t => {
  const proxy = await serving({ EDGE_TLS: 'off' })
  t.teardown(proxy.stop)
  t.is((await ask(proxy.port, 'a.apps.localhost')).status, 200)
  t.is((await ask(proxy.port, 'api.localhost', { from: elsewhere })).body, 'api')
  await t.throwsAsync(askHttps(proxy.tlsPort, 'a.apps.localhost', issuer.root), { message: /ECONNREFUSED/ })
})
