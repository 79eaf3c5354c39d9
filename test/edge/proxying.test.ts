import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { WebSocket, WebSocketServer } from 'ws'
import { unusedPort } from '../../cli/installation/ports.ts'
import { ask, named, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy({ EDGE_APP_BODY_MB: '1' })
})
test.after.always(() => proxy?.stop())

const appId = '0123456789abcdef01234567'
const address = '127.0.0.1'
const hostOf = (label: string) => `${label}.apps.localhost`

async function routed(label: string, port: number): Promise<string> {
  await proxy.edge.setRoute({ host: hostOf(label), appId, address, port })
  return hostOf(label)
}

test('a request reaches the application with its host, and only our forwarding headers', async t => {
  let seen: IncomingMessage | undefined
  const origin = await startOrigin((incoming, answer) => {
    seen = incoming
    answer.end('ok')
  })
  t.teardown(origin.stop)
  const host = `${await routed('headers', origin.port)}:${proxy.port}`
  const forged = {
    'x-forwarded-for': '1.2.3.4',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'evil',
    forwarded: 'for=1.2.3.4',
  }
  const odd = {
    x_forwarded_for: '1.2.3.4',
    'x.real.ip': '1.2.3.4',
    'x-kept': 'yes',
    upgrade: 'h2c',
    connection: 'upgrade',
  }
  await ask(proxy.port, host, { path: '/a//b/%2e%2e/c?x=%20', headers: { ...forged, ...odd } })
  t.is(seen?.url, '/a//b/%2e%2e/c?x=%20')
  t.is(seen?.httpVersion, '1.1')
  t.like(seen?.headers, {
    host,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': host,
    'x-real-ip': '127.0.0.1',
    'x-kept': 'yes',
  })
  t.regex(String(seen?.headers['x-request-id']), /^[0-9a-f]{16}-\d+-\d+$/)
  for (const name of ['forwarded', 'x_forwarded_for', 'x.real.ip', 'upgrade', 'connection'])
    t.false(name in (seen?.headers ?? {}) && seen?.headers[name] !== 'keep-alive', `${name} was passed on`)
})

test('host names are compared without case, port and trailing dot', async t => {
  const origin = await named('mine')
  t.teardown(origin.stop)
  const host = await routed('case', origin.port)
  for (const spelled of [host, host.toUpperCase(), `${host}:1234`, `${host}.`, `${host}.:80`])
    t.is((await ask(proxy.port, spelled)).body, 'mine', spelled)
})

test('an unknown host gets a small page that says so and is never cached', async t => {
  const seen = await ask(proxy.port, 'nobody.apps.localhost')
  t.is(seen.status, 404)
  t.is(seen.headers['cache-control'], 'no-store')
  t.is(seen.headers['content-type'], 'text/html; charset=utf-8')
  t.regex(seen.body, /No application answers at nobody\.apps\.localhost/)
})

test('an application that does not listen gets a 502 page', async t => {
  const seen = await ask(proxy.port, await routed('dead', await unusedPort()))
  t.is(seen.status, 502)
  t.is(seen.headers['cache-control'], 'no-store')
  t.is(seen.headers['retry-after'], '2')
  t.regex(seen.body, /The application is not reachable/)
})

test('an application’s own errors pass unchanged', async t => {
  const origin = await startOrigin((_, answer) => {
    answer.statusCode = 502
    answer.end('mine')
  })
  t.teardown(origin.stop)
  t.like(await ask(proxy.port, await routed('own', origin.port)), { status: 502, body: 'mine' })
})

test('an answer cannot control the proxy: it is neither redirected internally nor buffered in files', async t => {
  const bytes = 64 * 1024 ** 2
  let answered: ServerResponse | undefined
  const origin = await startOrigin((incoming, answer) => {
    answered = answer
    if (incoming.url === '/led') return void answer.setHeader('X-Accel-Redirect', '@page').end('the answer')
    answer.setHeader('X-Accel-Buffering', 'yes').end(Buffer.alloc(bytes))
  })
  t.teardown(origin.stop)
  const host = await routed('orders', origin.port)
  t.like(await ask(proxy.port, host, { path: '/led' }), { status: 200, body: 'the answer' })

  const temporary = join(proxy.config.dataDir, 'proxy/temporary/proxy')
  const { mtimeMs } = await stat(temporary)
  const asked = request({ port: proxy.port, host: address, agent: false, headers: { host } }).end()
  const [reply] = await once(asked, 'response')
  // The client does not read: by then the proxy has buffered everything, or reads no more.
  for (let before = -1; ; ) {
    const taken = answered?.socket?.bytesWritten ?? 0
    if (taken === before || answered?.writableFinished) break
    before = taken
    await sleep(200)
  }
  let read = 0
  for await (const chunk of reply) read += chunk.length
  t.is(read, bytes)
  t.is((await stat(temporary)).mtimeMs, mtimeMs, 'a file was made, and be it for a moment')
})

test('a WebSocket echoes through the proxy in both directions, text and binary', async t => {
  const sockets = new WebSocketServer({ port: 0, host: address })
  sockets.on('connection', socket => socket.on('message', (data, binary) => socket.send(data, { binary })))
  await once(sockets, 'listening')
  t.teardown(() => sockets.close())
  const host = await routed('socket', (sockets.address() as AddressInfo).port)
  const client = new WebSocket(`ws://127.0.0.1:${proxy.port}/chat`, { headers: { host } })
  t.teardown(() => client.terminate())
  await once(client, 'open')
  for (const message of ['hello', Buffer.alloc(200_000, 7)]) {
    client.send(message)
    const [data, binary] = await once(client, 'message')
    t.is(binary, typeof message !== 'string')
    t.deepEqual(Buffer.from(data as Buffer), Buffer.from(message))
  }
})

test('a request body and an answer stream: each part arrives before the next is sent', async t => {
  const origin = await startOrigin((incoming, answer) => incoming.pipe(answer))
  t.teardown(origin.stop)
  const host = await routed('stream', origin.port)
  const sent = request({ port: proxy.port, host: address, method: 'POST', headers: { host }, agent: false })
  sent.write('one')
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  t.is(String((await once(answer, 'data'))[0]), 'one')
  sent.write('two')
  t.is(String((await once(answer, 'data'))[0]), 'two')
  sent.end()
  answer.resume()
  await once(answer, 'end')
})

test('a body over the limit is refused with a page and does not reach the application', async t => {
  let reached = false
  const origin = await startOrigin((_, answer) => {
    reached = true
    answer.end()
  })
  t.teardown(origin.stop)
  const seen = await ask(proxy.port, await routed('large', origin.port), {
    method: 'POST',
    body: Buffer.alloc(1024 * 1024 + 1),
    headers: { expect: '' },
  }).catch(error => ({ status: error.code === 'EPIPE' || error.code === 'ECONNRESET' ? 413 : 0 }))
  t.is(seen.status, 413)
  t.false(reached)
})

test('a request whose container ends as its route is held or removed gets 502, like any that is not answered', async t => {
  const changes = {
    held: (host: string) => proxy.edge.setRoute({ host, appId, address, port: 0 }),
    removed: (host: string) => proxy.edge.removeRoute(host),
  }
  for (const [label, change] of Object.entries(changes)) {
    const origin = await startOrigin(async ({ socket }) => {
      await change(hostOf(label))
      socket.destroy()
    })
    t.teardown(origin.stop)
    const { status, headers } = await ask(proxy.port, await routed(label, origin.port))
    t.deepEqual([status, headers['retry-after']], [502, '2'], label)
  }
})

test('a lost idempotent request is sent again once, a POST never', async t => {
  const calls: string[] = []
  const server = createServer((incoming, answer) => {
    calls.push(String(incoming.method))
    if (calls.length === 1 || incoming.method === 'POST') return incoming.socket.destroy()
    answer.end('second')
  }).listen(0, address)
  await once(server, 'listening')
  t.teardown(() => server.close())
  const host = await routed('retry', (server.address() as AddressInfo).port)
  t.is((await ask(proxy.port, host)).body, 'second')
  t.deepEqual(calls, ['GET', 'GET'])
  t.is((await ask(proxy.port, host, { method: 'POST', body: 'x' })).status, 502)
  t.deepEqual(calls, ['GET', 'GET', 'POST'])
})
