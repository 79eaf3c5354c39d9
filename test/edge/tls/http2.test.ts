import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import test from 'ava'
import {
  endHeaders,
  endStream,
  type Field,
  frameConnection,
  frames,
  requestTo,
} from '../../kit/servers/http2-frames.ts'
import { askHttp2, askHttps, http2Session, type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

let proxy: TestProxy
let origin: Origin
let issuer: Issuer
const reached: { url: string; headers: NodeJS.Dict<string | string[]>; body: string }[] = []

test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local', EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
  issuer = await testIssuer()
  origin = await startOrigin(async (incoming, answer) => {
    let body = ''
    for await (const chunk of incoming.on('error', () => {})) body += chunk
    reached.push({ url: String(incoming.url), headers: incoming.headers, body })
    const length = Number(/^\/bytes-(\d+)/.exec(String(incoming.url))?.[1] ?? 0)
    if (!length) return answer.end('reached')
    answer.writeHead(200, { 'content-length': length }).write('x'.repeat(length / 2))
    if (incoming.url?.endsWith('-cut')) return setTimeout(() => answer.destroy(), 50)
    answer.end('y'.repeat(length / 2))
  })
  origin.server.on('upgrade', (incoming, socket) => {
    reached.push({ url: String(incoming.url), headers: incoming.headers, body: 'upgraded' })
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
    socket.pipe(socket)
  })
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  for (const host of ['a.localhost', 'b.localhost']) await proxy.edge.setCertificate(await issuer.issue(host))
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

const all = endHeaders | endStream
const hidden = 'GET /hidden HTTP/1.1\r\nHost: a.localhost\r\n\r\n'

test('a correct request reaches the application as one, with its body and without names that look like others', async t => {
  const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  const odd: Field[] = [
    ['x_forwarded_for', '203.0.113.5'],
    ['x-real', 'yes'],
    ['x.dot', '1'],
    ['te', 'trailers'],
  ]
  socket.write(
    Buffer.concat([
      frames.headers(1, requestTo('/right', ...odd)),
      frames.data(1, hidden),
      frames.data(1, 'x', endStream),
    ]),
  )
  const { statuses } = await until(({ statuses }) => statuses.has(1))
  t.is(statuses.get(1), 200)
  const [right, ...others] = reached.filter(({ url }) => url === '/right' || url === '/hidden')
  t.deepEqual(others, [])
  t.is(right!.body, `${hidden}x`)
  t.like(right!.headers, { 'x-real': 'yes', host: 'a.localhost', 'x-forwarded-for': '127.0.0.1' })
  for (const name of ['x_forwarded_for', 'x.dot', 'te', 'upgrade']) t.is(right!.headers[name], undefined, name)
})

test('100 headers pass, and the host of a request may be another than that of the handshake', async t => {
  const session = await http2Session(proxy.tlsPort, 'b.localhost', issuer.root)
  t.teardown(() => session.destroy())
  const headers = Object.fromEntries(Array.from({ length: 98 }, (_, index) => [`x-${index}`, '1']))
  t.is((await askHttp2(session, 'a.localhost', { headers })).body, 'reached')
  t.is((await askHttp2(session, 'b.localhost')).status, 404)
})

test('an answer of an announced length ends with its last bytes, and needs no frame of its own for that', async t => {
  const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  socket.write(frames.headers(1, requestTo('/announced'), all))
  const { lastParts } = await until(({ lastParts }) => lastParts.has(1))
  t.is(lastParts.get(1), 'reached'.length)
  const session = await http2Session(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => session.destroy())
  for (const length of [2, 20_000, 1_000_000]) {
    const { body } = await askHttp2(session, 'a.localhost', { path: `/bytes-${length}` })
    t.is(body, 'x'.repeat(length / 2) + 'y'.repeat(length / 2))
  }
  await t.throwsAsync(askHttp2(session, 'a.localhost', { path: '/bytes-20000-cut' }), { message: /closed/ })
})

test('an application that announces two lengths, or one and chunks, cuts its answer nowhere', async t => {
  const half = 'x'.repeat(5)
  const odd: Record<string, [head: string, first: string, then: string]> = {
    '/lengths': ['Content-Length: 5\r\nContent-Length: 10', half, half],
    '/names': ['Content_Length: 5\r\nContent-Length: 10', half, half],
    '/chunks': ['Content-Length: 10\r\nTransfer-Encoding: chunked', `5\r\n${half}\r\n`, `5\r\n${half}\r\n0\r\n\r\n`],
  }
  const raw = createServer(socket => {
    socket
      .on('error', () => {})
      .once('data', async request => {
        const [head, first, then] = odd[/^GET (\S+)/.exec(String(request))?.[1] ?? '']!
        socket.write(`HTTP/1.1 200 OK\r\n${head}\r\nConnection: close\r\n\r\n${first}`)
        await sleep(100) // in another packet
        socket.end(then)
      })
  }).listen(0, '127.0.0.1')
  await once(raw, 'listening')
  t.teardown(() => raw.close())
  const { port } = raw.address() as AddressInfo
  await proxy.edge.setRoute({ host: 'odd.localhost', appId: 'odd', address: '127.0.0.1', port })
  await proxy.edge.setCertificate(await issuer.issue('odd.localhost'))
  for (const path of Object.keys(odd)) {
    const session = await http2Session(proxy.tlsPort, 'odd.localhost', issuer.root)
    t.teardown(() => session.destroy())
    const seen = [
      await askHttp2(session, 'odd.localhost', { path }),
      await askHttps(proxy.tlsPort, 'odd.localhost', issuer.root, { path }),
    ]
    // nginx may refuse such an answer, and then does so as a whole.
    for (const { status, body } of seen) t.true(status === 502 || body === half + half, `${path}: ${status} ${body}`)
  }
})

test('streams beyond the limit of a connection are refused, and the others are answered', async t => {
  const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  // Open until their body ends.
  const ids = Array.from({ length: 70 }, (_, index) => 2 * index + 1)
  socket.write(Buffer.concat(ids.map(id => frames.headers(id, requestTo(`/many-${id}`)))))
  const { resets } = await until(({ resets }) => resets.length >= 6)
  t.deepEqual(resets, ids.slice(64))
  socket.write(Buffer.concat(ids.slice(0, 64).map(id => frames.data(id, 'x', endStream))))
  const { statuses } = await until(({ statuses }) => statuses.size >= 64)
  t.deepEqual([...new Set(statuses.values())], [200])
})

test('a flood of streams that are reset immediately ends its connection, and others are answered meanwhile', async t => {
  const { socket, until, received } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  const session = await http2Session(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => session.destroy())
  for (let turn = 0; turn < 20 && !received.ended; turn++) {
    const ids = Array.from({ length: 100 }, (_, index) => 2 * (turn * 100 + index) + 1)
    socket.write(
      Buffer.concat(ids.flatMap(id => [frames.headers(id, requestTo(`/flood-${id}`), all), frames.reset(id)])),
    )
    t.is((await askHttp2(session, 'a.localhost', { path: '/meanwhile' })).status, 200)
  }
  t.true((await until(() => false)).ended)
})

test('a connection is closed after 1000 requests, all of which are answered', async t => {
  const session = await http2Session(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => session.destroy())
  let answered = 0
  for (; answered < 1100 && !session.closed; answered++)
    t.is((await askHttp2(session, 'a.localhost', { path: '/counted' })).status, 200)
  t.is(answered, 1000)
  const ids = reached.filter(({ url }) => url === '/counted').map(({ headers }) => headers['x-request-id'])
  t.is(new Set(ids).size, 1000, 'each request has an id of its own')
})

test('HTTP/2 is not spoken without TLS, neither by its preface nor by an upgrade', async t => {
  const send = async (bytes: string) => {
    const socket = connect(proxy.port, '127.0.0.1')
    let text = ''
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
    })
    socket.write(bytes)
    await once(socket, 'close')
    return text
  }
  t.regex(await send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), /^HTTP\/1\.1 400 /)
  const upgrade = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n'
  const plain = `GET /h2c HTTP/1.1\r\nHost: c.localhost\r\n${upgrade}\r\n`
  await proxy.edge.setRoute({ host: 'c.localhost', appId: 'c1', address: '127.0.0.1', port: origin.port })
  t.regex(await send(plain.replace('Connection: ', 'Connection: close, ')), /^HTTP\/1\.1 200 /)
  t.is(reached.find(({ url }) => url === '/h2c')?.headers.upgrade, undefined)
})

test('a WebSocket is opened by HTTP/1.1 on the port of https, and stays open while its certificate is replaced', async t => {
  const socket = connectTls({ host: '127.0.0.1', port: proxy.tlsPort, servername: 'a.localhost', ca: issuer.root })
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  const until = async (part: string) => {
    for (let look = 0; look < 500 && !text.includes(part); look++) await sleep(10)
    t.true(text.includes(part), text)
  }
  socket.write('GET /socket HTTP/1.1\r\nHost: a.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await until('HTTP/1.1 101 ')
  socket.write('before;')
  await until('before;')
  await proxy.edge.setCertificate(await issuer.issue('a.localhost'))
  socket.write('after;')
  await until('before;after;')
})

test('a malformed request that nginx accepts is still one request to one host', async t => {
  const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  // A body that precedes its headers is dropped; the order of pseudo headers means nothing.
  const late = frames.headers(3, [['x', '1'], ...requestTo('/late')], all)
  socket.write(Buffer.concat([frames.data(1, hidden, endStream), frames.headers(1, requestTo('/early'), all), late]))
  await until(({ statuses }) => statuses.size >= 2)
  const got = reached.filter(({ url }) => ['/early', '/late', '/hidden'].includes(url))
  t.deepEqual(got.map(({ url, headers, body }) => [url, headers.host, body]).sort(), [
    ['/early', 'a.localhost', ''],
    ['/late', 'a.localhost', ''],
  ])
})
