import { createHash, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, type Call, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const address = '127.0.0.1'
let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
})
test.after.always(() => proxy?.stop())

type Answer = (incoming: IncomingMessage, answer: ServerResponse, count: number) => unknown

const withLength = (answer: ServerResponse, body: string | Buffer, headers: Record<string, string | string[]>) =>
  answer.writeHead(200, { 'content-length': Buffer.byteLength(body), ...headers }).end(body)

/** An application whose answers are numbered, under a host of its own. */
async function app(t: ExecutionContext, label: string, listener: Answer = numbered()) {
  let count = 0
  const origin = await startOrigin((incoming, answer) => listener(incoming, answer, ++count))
  t.teardown(origin.stop)
  const host = `${label}.apps.localhost`
  const route = { host, appId: `app-${label}`, address, port: origin.port }
  const serve = (version?: string) => proxy.edge.setRoute({ ...route, version })
  await serve('1.0')
  const get = async (path: string, call: Call = {}) => {
    const { status, headers, body } = await ask(proxy.port, host, { path, ...call })
    return { status, body, cache: headers['x-cache'] ?? 'dynamic', headers }
  }
  /** Asks until the answer comes from the cache. */
  const warm = async (path: string, call: Call = {}) => {
    for (let n = 0; n < 2; n++) await get(path, call)
    await comesTrue(async () => (await get(path, call)).cache === 'hit', 10)
  }
  return { ...{ host, route, origin, serve, get, warm }, calls: () => count }
}

function numbered(headers: Record<string, string | string[]> = { 'cache-control': 'public, max-age=600' }): Answer {
  return (_, answer, count) => withLength(answer, `answer ${count}`, headers)
}

function signal() {
  let resolve = () => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve }
}

test('an answer that is declared fresh is learned, then stored, then served without its application', async t => {
  const { get, calls, host } = await app(t, 'fresh')
  for (const [cache, body] of [
    ['dynamic', 1],
    ['miss', 2],
    ['hit', 2],
    ['hit', 2],
  ] as const)
    t.like(await get('/page?q=1'), { status: 200, cache, body: `answer ${body}` })
  t.is(calls(), 2)
  t.is((await get('/page?q=2')).body, 'answer 3', 'another query is another page')
  await comesTrue(async () => (await proxy.accessLog(5)).filter(line => line.host === host).length >= 5)
  const lines = (await proxy.accessLog(5)).filter(line => line.host === host && line.query === 'q=1')
  t.deepEqual(lines.map(({ cache, app }) => [cache, app]).sort(), [
    ['dynamic', 'app-fresh'],
    ...[1, 2].map(() => ['hit', 'app-fresh']),
    ['miss', 'app-fresh'],
  ])
})

test('every worker learns the first cacheable path of an application that it knew without one', async t => {
  const { get } = await app(t, 'late', (incoming, answer, count) =>
    withLength(answer, `answer ${count}`, incoming.url === '/fresh' ? { 'cache-control': 'max-age=600' } : {}),
  )
  const times = Array.from({ length: 20 })
  for (const _ of times) await get('/plain')
  t.is((await get('/fresh')).cache, 'dynamic')
  for (const _ of times) t.not((await get('/fresh')).cache, 'dynamic')
})

const never: Record<string, Record<string, string | string[]>> = {
  'nothing declared': {},
  'max-age=0': { 'cache-control': 'max-age=0' },
  's-maxage=0': { 'cache-control': 'max-age=600, s-maxage=0' },
  private: { 'cache-control': 'private, max-age=600' },
  'private, in a header of its own': { 'cache-control': ['max-age=600', 'Private'] },
  'no-store': { 'cache-control': 'no-store, max-age=600' },
  'no-cache': { 'cache-control': 'No-Cache, max-age=600' },
  'a cookie': { 'cache-control': 'max-age=600', 'set-cookie': 'a=b' },
  'an event stream': { 'cache-control': 'max-age=600', 'content-type': 'text/event-stream; charset=utf-8' },
  'Vary: *': { 'cache-control': 'max-age=600', vary: '*' },
  'two Vary headers': { 'cache-control': 'max-age=600', vary: ['Accept', 'X-Kind'] },
  'Expires alone': { expires: 'Fri, 01 Jan 2100 00:00:00 GMT' },
  'an instruction to the proxy': { 'x-accel-expires': '600' },
}
test('an answer that is not declared storable is never stored, also where it was before', async t => {
  const { get } = await app(t, 'never', (incoming, answer, count) => {
    const headers = never[decodeURIComponent(incoming.url!.slice(1))] ?? {}
    withLength(answer, `answer ${count}`, incoming.headers['x-was'] ? { 'cache-control': 'max-age=1' } : headers)
  })
  const labels = Object.keys(never)
  const pathOf = (label: string) => `/${encodeURIComponent(label)}`
  const demandFour = async (words = '') => {
    for (const label of labels) {
      const seen = new Set<string>()
      for (let n = 0; n < 4; n++) seen.add((await get(pathOf(label))).body)
      t.is(seen.size, 4, label + words)
    }
  }
  await demandFour()
  for (const label of labels) for (let n = 0; n < 2; n++) await get(pathOf(label), { headers: { 'x-was': '1' } })
  await sleep(2100) // nginx counts whole seconds
  await demandFour(', after one that was')
})

test('an answer without a length in advance is not stored: its size would have no bound', async t => {
  const { get } = await app(t, 'chunked', (_, answer, count) => {
    answer.setHeader('cache-control', 'max-age=600').write('answer ')
    answer.end(String(count))
  })
  for (let n = 1; n <= 4; n++) t.is((await get('/')).body, `answer ${n}`)
})

test('requests with credentials, bodies or other methods are never answered from the cache', async t => {
  const { get, warm, calls } = await app(t, 'requests')
  await warm('/page')
  const kinds: Call[] = [
    { headers: { authorization: 'Bearer x' } },
    { headers: { authorization: '' } },
    { method: 'POST', body: 'x' },
    { method: 'DELETE' },
    { method: 'OPTIONS' },
    { body: 'x', headers: { 'content-length': '1' } },
    { headers: { connection: 'upgrade', upgrade: 'websocket' } },
  ]
  for (const call of kinds) {
    const before = calls()
    t.is((await get('/page', call)).cache, 'dynamic')
    t.is(calls(), before + 1, JSON.stringify(call))
  }
  t.is((await get('/page')).cache, 'hit')
})

test('variants are stored apart, and so are schemes, ports in the host, methods, and visitors with a cookie who get their own', async t => {
  const { get, warm, host, calls } = await app(t, 'apart', (incoming, answer, count) => {
    const own = incoming.headers.cookie ? { 'cache-control': 'private' } : { 'cache-control': 'max-age=600' }
    const { host: asked, 'x-kind': kind } = incoming.headers
    withLength(answer, `${count} ${incoming.headers['x-forwarded-proto']}://${asked} ${kind}`, {
      vary: 'X-Kind',
      ...own,
    })
  })
  await warm('/', { headers: { 'x-kind': 'a' } })
  t.regex((await get('/', { headers: { 'x-kind': 'b' } })).body, / b$/)
  await warm('/', { headers: { 'x-kind': 'b' } })
  for (const kind of ['a', 'b']) t.true((await get('/', { headers: { 'x-kind': kind } })).body.endsWith(kind))
  const ported = await ask(proxy.port, `${host}:81`, { path: '/', headers: { 'x-kind': 'a' } })
  t.regex(ported.body, /:81 a$/)
  const before = calls()
  for (let n = 0; n < 3; n++) await get('/', { headers: { 'x-kind': 'a', cookie: 'session=1' } })
  t.is(calls(), before + 3)
  t.like(await get('/', { headers: { 'x-kind': 'a' } }), { cache: 'hit' })
  t.like(await get('/', { method: 'HEAD', headers: { 'x-kind': 'a' } }), { status: 200, body: '' })
  t.regex((await get('/', { headers: { 'x-kind': 'a' } })).body, / a$/)
})

test('a large answer is stored whole, ranges and conditions are answered from it, and one above the limit is not stored', async t => {
  const whole = randomBytes(20 * 1024 ** 2)
  const digest = (body: Buffer) => createHash('sha256').update(body).digest('hex')
  const { warm, calls, host } = await app(t, 'large', (incoming, answer) => {
    const body = incoming.url === '/above' ? Buffer.alloc(65 * 1024 ** 2) : whole
    withLength(answer, body, { 'cache-control': 'max-age=600', etag: '"whole"', 'accept-ranges': 'bytes' })
  })
  const read = async (path: string, headers: Record<string, string> = {}) => {
    const url = `http://127.0.0.1:${proxy.port}${path}`
    const { request } = await import('node:http')
    return new Promise<{ status?: number; headers: IncomingMessage['headers']; body: Buffer }>((resolve, reject) => {
      const sent = request(url, { agent: false, headers: { host, ...headers } }, async answer => {
        const chunks: Buffer[] = []
        for await (const chunk of answer) chunks.push(chunk)
        resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) })
      })
      sent.on('error', reject).end()
    })
  }
  await warm('/large')
  const before = calls()
  t.is(digest((await read('/large')).body), digest(whole))
  const part = await read('/large', { range: 'bytes=1000-1999' })
  t.is(part.status, 206)
  t.true(part.body.equals(whole.subarray(1000, 2000)))
  t.is((await read('/large', { 'if-none-match': '"whole"' })).status, 304)
  t.is(calls(), before)
  for (let n = 1; n <= 3; n++) t.is((await read('/above')).body.length, 65 * 1024 ** 2)
  t.is(calls(), before + 3)
})

test('of many concurrent requests for the same address, one reaches the application', async t => {
  const { get, calls } = await app(t, 'locked', async (_, answer, count) => {
    if (count > 1) await sleep(300)
    withLength(answer, `answer ${count}`, { 'cache-control': 'max-age=600' })
  })
  await get('/')
  const all = await Promise.all(Array.from({ length: 20 }, () => get('/')))
  t.deepEqual(new Set(all.map(({ body }) => body)), new Set(['answer 2']))
  t.is(calls(), 2)
})

test('a client that gives up does not end what fills the cache, and its line says so', async t => {
  const [arrival, departure] = [signal(), signal()]
  const { get, host } = await app(t, 'given-up', async (_, answer, count) => {
    if (count === 2) arrival.resolve()
    if (count === 2) await departure.promise
    withLength(answer, `answer ${count}`, { 'cache-control': 'max-age=600' })
  })
  await get('/')
  const visitor = connect(proxy.port, address).on('error', () => {})
  visitor.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await arrival.promise
  visitor.destroy()
  await sleep(300)
  departure.resolve()
  const states = async () => (await proxy.accessLog(2)).filter(line => line.host === host).map(({ cache }) => cache)
  await comesTrue(async () => (await states()).length === 2)
  t.deepEqual(await states(), ['dynamic', 'miss'])
})

test('an update in the background leaves the line of the request that began it as it was', async t => {
  const staleAnswer = signal()
  const { get, warm, host } = await app(t, 'updated', async (_, answer, count) => {
    if (count === 3) await staleAnswer.promise.then(() => sleep(500))
    withLength(answer, `answer ${count}`, { 'cache-control': 'max-age=1, stale-while-revalidate=600' })
  })
  await warm('/')
  await sleep(2100) // nginx counts whole seconds
  t.like(await get('/'), { cache: 'stale', body: 'answer 2' })
  staleAnswer.resolve()
  const line = async () => (await proxy.accessLog(1)).find(line => line.host === host && Number(line.seconds) >= 0.5)
  await comesTrue(async () => Boolean(await line()))
  const { cache, edge_ms, seconds } = (await line())!
  t.is(cache, 'stale')
  t.true(Number(edge_ms) + 400 < Number(seconds) * 1000, 'its first byte left before the update was answered')
})

test('a path is not remembered as cacheable for what answered a body', async t => {
  const { get } = await app(t, 'bodies')
  const announced = { body: 'x', headers: { 'content-length': '1' } }
  const chunked = { body: 'x', headers: { 'transfer-encoding': 'chunked' } }
  for (const call of [announced, announced, chunked, chunked, {}]) t.is((await get('/', call)).cache, 'dynamic')
  t.is((await get('/')).cache, 'miss', 'it is by the answer to one without')
})
