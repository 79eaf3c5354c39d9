import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import {
  endHeaders,
  endStream,
  type Field,
  frameConnection,
  frames,
  requestTo,
} from '../../kit/servers/http2-frames.ts'
import { askHttp2, http2Session, type Issuer, testIssuer } from '../../kit/servers/https.ts'
import { type Origin, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

let proxy: TestProxy
let origin: Origin
let issuer: Issuer
const address = '127.0.0.1'
const reached: { url: string; method: string; body: number }[] = []

test.before(async () => {
  proxy = await startProxy({ EDGE_TLS: 'local', EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
  issuer = await testIssuer()
  origin = await startOrigin(async (incoming, answer) => {
    let body = 0
    for await (const chunk of incoming.on('error', () => {})) body += chunk.length
    reached.push({ url: String(incoming.url), method: String(incoming.method), body })
    const text = body ? 'poisoned' : 'right'
    answer.writeHead(200, { 'content-length': text.length, 'cache-control': 'max-age=600' }).end(text)
  })
  await proxy.edge.setRoute({ host: 'a.localhost', appId: 'a1', address, port: origin.port, version: '1.0' })
  for (const host of ['a.localhost', 'b.localhost']) await proxy.edge.setCertificate(await issuer.issue(host))
})
test.after.always(async () => {
  await proxy?.stop()
  await origin?.stop()
})

/** A request whose headers say nothing of a body and do not end its stream. */
function open(method: string, path: string, host = 'a.localhost'): Buffer {
  const own: Record<string, string> = { ':method': method, ':authority': host }
  const fields = requestTo(path).map(([name, value]): Field => [name, own[name] ?? value])
  return frames.headers(1, fields, endHeaders)
}

/** Sends it, the given frames after a moment, and resolves to the status. */
async function send(request: Buffer, ...later: Buffer[]): Promise<number | undefined> {
  const { socket, until } = await frameConnection(proxy.tlsPort, 'a.localhost', issuer.root)
  try {
    socket.write(request)
    await sleep(100)
    socket.write(Buffer.concat(later))
    return (await until(({ statuses }) => statuses.has(1))).statuses.get(1)
  } finally {
    socket.destroy()
  }
}

/** `size` bytes in frames as large as a receiver has to accept. */
function body(size: number): Buffer[] {
  const parts: Buffer[] = []
  for (let left = size; left > 0; left -= 16_384)
    parts.push(frames.data(1, 'x'.repeat(Math.min(left, 16_384)), left <= 16_384 ? endStream : 0))
  return parts
}

const bodies = { 'in memory': 10, 'in a file': 50_000 }
for (const method of ['GET', 'HEAD'])
  for (const [where, size] of Object.entries(bodies))
    test(`HTTP/2, ${method} with an unannounced body ${where}: the application reads it, and its answer is not stored`, async t => {
      const path = `/${method}-${size}`
      const session = await http2Session(proxy.tlsPort, 'a.localhost', issuer.root)
      t.teardown(() => session.destroy())
      const ask = () => askHttp2(session, 'a.localhost', { method, path })
      const seen = () => reached.filter(({ url }) => url === path).map(each => [each.method, each.body])
      t.is((await ask()).status, 200, 'the path is remembered as cacheable')
      t.is(await send(open(method, path), ...body(size)), 200)
      t.deepEqual(seen(), [
        [method, 0],
        [method, size],
      ])
      t.like(await ask(), { headers: { 'x-cache': 'miss' }, body: method === 'GET' ? 'right' : '' })
      await comesTrue(async () => (await ask()).headers['x-cache'] === 'hit')
      t.is(await send(open(method, path), ...body(size)), 200)
      t.deepEqual(seen().at(-1), [method, size], 'nor is it answered from the cache')
    })

test('HTTP/2, a GET whose stream ends late without a body is answered from the cache', async t => {
  const path = '/late-end'
  for (let n = 0; n < 4; n++) t.is(await send(open('GET', path), frames.data(1, '', endStream)), 200)
  t.is(reached.filter(({ url }) => url === path).length, 2)
})

test('HTTP/2, an unannounced body above the limit is refused', async t => {
  t.is(await send(open('GET', '/above'), ...body(1_100_000)), 413)
  t.deepEqual(
    reached.filter(({ url }) => url === '/above'),
    [],
  )
})

test('HTTP/2, a GET with an unannounced body is not attempted again', async t => {
  const host = 'b.localhost'
  await proxy.edge.setRoute({ host, appId: 'b1', address, port: await unusedPort() })
  t.is(await send(open('GET', '/body', host), ...body(10)), 502)
  t.is(await send(open('GET', '/none', host), frames.data(1, '', endStream)), 502)
  const attempts = async (path: string) => {
    const line = (await proxy.accessLog(1)).find(each => each.host === host && each.path === path)
    return line && String(line.upstream_status).split(' : ').length
  }
  await comesTrue(async () => (await attempts('/none')) !== undefined)
  t.is(await attempts('/body'), 1)
  t.is(await attempts('/none'), 2)
})

test('HTTP/2, a request that a worker of before a reload has admitted goes where its route leads by then', async t => {
  const own = await startProxy({ EDGE_TLS: 'local', EDGE_WORKERS: '1' })
  t.teardown(own.stop)
  const next = await startOrigin((_, answer) => answer.writeHead(204).end())
  t.teardown(next.stop)
  const route = { host: 'a.localhost', appId: 'a1', address, version: '1.0' }
  await own.edge.setRoute({ ...route, port: origin.port })
  await own.edge.setCertificate(await issuer.issue('a.localhost'))
  const { socket, received } = await frameConnection(own.tlsPort, 'a.localhost', issuer.root)
  t.teardown(() => socket.destroy())
  socket.write(open('GET', '/late'))
  await sleep(100)
  own.reload()
  await comesTrue(async () => (await workersOf(own)).some(title => title.includes('shutting down')))
  await own.edge.setRoute({ ...route, port: next.port })
  socket.write(frames.data(1, '', endStream))
  await comesTrue(() => received.statuses.has(1))
  t.is(received.statuses.get(1), 204)
})

/** The titles of a proxy's processes but its first. */
async function workersOf({ config }: TestProxy): Promise<string[]> {
  const first = (await readFile(join(config.dataDir, 'proxy/nginx.pid'), 'utf8')).trim()
  const pids = (await readFile(`/proc/${first}/task/${first}/children`, 'utf8')).trim().split(' ')
  return Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
}
