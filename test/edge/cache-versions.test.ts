import { once } from 'node:events'
import { readdir, readFile, stat } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { proxyCache } from '../../policy/edge/cache.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, startOrigin } from '../kit/servers/origin.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const address = '127.0.0.1'
const forever = { 'cache-control': 'public, max-age=31536000' }

async function proxied(t: ExecutionContext, settings: Record<string, string> = {}): Promise<TestProxy> {
  const proxy = await startProxy(settings)
  t.teardown(proxy.stop)
  return proxy
}

/** An application that answers with its content, which the test changes. */
async function app(t: ExecutionContext, proxy: TestProxy, label: string, headers: Record<string, string> = forever) {
  const state = { content: 'first', headers, calls: 0, kill: false }
  const origin = await startOrigin(({ socket }, answer) => {
    state.calls++
    if (state.kill) return void socket.destroy()
    answer.writeHead(200, { 'content-length': state.content.length, ...state.headers }).end(state.content)
  })
  t.teardown(origin.stop)
  const host = `${label}.apps.localhost`
  const route = { host, appId: `app-${label}`, address, port: origin.port }
  const get = async (name = host) => {
    const { status, body, headers } = await ask(proxy.port, name)
    return { status, body, cache: headers['x-cache'] ?? 'dynamic' }
  }
  const warm = async (name = host) => {
    await comesTrue(async () => (await get(name)).cache === 'hit', 10)
  }
  return {
    state,
    host,
    route,
    origin,
    get,
    warm,
    serve: (version?: string) => proxy.edge.setRoute({ ...route, version }),
  }
}

test('another version of the route is in effect on its return; without one nothing is cached', async t => {
  const proxy = await proxied(t)
  const { state, get, warm, serve } = await app(t, proxy, 'versions')
  for (const version of ['1.0', '1.1', '2.1']) {
    state.content = `content of ${version}`
    await serve(version)
    t.is((await get()).body, state.content)
    await warm()
  }
  state.content = 'changed'
  t.like(await get(), { body: 'content of 2.1', cache: 'hit' }, 'a change alone purges nothing')
  await serve()
  for (let n = 0; n < 4; n++) t.like(await get(), { body: 'changed', cache: 'dynamic' })
})

test('cached answers outlive a killed proxy with the version of their route, and are not served while it is held or removed', async t => {
  const proxy = await proxied(t)
  const { state, get, warm, serve, route, host } = await app(t, proxy, 'kept')
  await serve('1.0')
  await warm()
  state.content = 'changed'
  await proxy.kill('SIGKILL')
  await proxy.start()
  await get()
  t.like(await get(), { body: 'first' })
  await proxy.edge.setRoute({ ...route, port: 0, version: '1.0' })
  t.is((await get()).status, 503)
  await proxy.edge.removeRoute(host)
  t.is((await get()).status, 404)
  await serve('1.1')
  await proxy.kill('SIGKILL')
  await proxy.start()
  t.like(await get(), { body: 'changed' })
})

test('an answer that is too old is served only while its application does not answer, or where it allows that', async t => {
  const proxy = await proxied(t)
  const strict = await app(t, proxy, 'strict', { 'cache-control': 'max-age=1' })
  const lenient = await app(t, proxy, 'lenient', { 'cache-control': 'max-age=1, stale-while-revalidate=600' })
  for (const { serve, warm, state } of [strict, lenient]) {
    await serve('1.0')
    await warm()
    state.content = 'second'
  }
  await sleep(2100) // nginx counts whole seconds
  t.like(await strict.get(), { body: 'second', cache: 'expired' })
  t.like(await lenient.get(), { body: 'first', cache: 'stale' })
  await comesTrue(async () => (await lenient.get()).body === 'second')
  await strict.warm()
  await sleep(2100)
  strict.state.kill = true
  t.like(await strict.get(), { status: 200, body: 'second', cache: 'stale' })
  await strict.serve('1.1')
  t.is((await strict.get()).status, 502, 'but not after a purge')
})

test('members of a custom name have what they answer, and what another has answered for them is not stored', async t => {
  const proxy = await proxied(t)
  const [one, two] = [await app(t, proxy, 'one'), await app(t, proxy, 'two')]
  one.state.content = 'one'
  two.state.content = 'two'
  await one.serve('1.0')
  await two.serve('1.0')
  const host = 'group.example.org'
  const setMembers = (...members: string[]) => proxy.edge.setName({ host, members })
  for (const member of [one, two]) {
    await setMembers(member.host)
    await member.warm(host)
  }
  await setMembers(one.host, two.host)
  const calls = one.state.calls + two.state.calls
  const seen = new Set<string>()
  for (let n = 0; n < 40; n++) seen.add((await one.get(host)).body)
  t.deepEqual([...seen].sort(), ['one', 'two'])
  t.is(one.state.calls + two.state.calls, calls)

  // While one refuses connections, two answers requests that were to be stored as answers of one.
  await proxy.edge.setRoute({ ...one.route, port: await unusedPort(), version: '1.1' })
  for (let n = 0; n < 20; n++) t.is((await one.get(host)).body, 'two')
  await one.serve('1.1')
  await setMembers(one.host)
  for (let n = 0; n < 4; n++) t.is((await one.get(host)).body, 'one')
})

/** Processes that tend the caches of a proxy whose master has ended. */
async function orphans(): Promise<string[]> {
  const read = (pid: string, file: string) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')
  const left: string[] = []
  for (const pid of (await readdir('/proc')).filter(name => /^\d+$/.test(name))) {
    if (!(await read(pid, 'cmdline')).startsWith('nginx: cache ')) continue
    const [, parent = '', group] = /\) \S (\d+) (\d+) /.exec(await read(pid, 'stat')) ?? []
    const [, , ours] = /\) \S (\d+) (\d+) /.exec(await read('self', 'stat')) ?? []
    if (group === ours && !(await read(parent, 'comm')).startsWith('nginx')) left.push(pid)
  }
  return left
}

test('the processes that tend the caches end with a proxy that is killed', async t => {
  const proxy = await proxied(t)
  await proxy.kill('SIGKILL')
  await comesTrue(async () => (await orphans()).length === 0)
  t.pass()
})

async function diskOf(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true })
  const sizes = await Promise.all(names.map(name => stat(join(folder, name)).catch(() => null)))
  return sizes.reduce((sum, found) => sum + (found?.isFile() ? found.size : 0), 0)
}

test('the disk has its bound, and one application drops nothing of those in other parts', async t => {
  const proxy = await proxied(t, { EDGE_CACHE_MB: '8', EDGE_WORKERS: '1' })
  const body = Buffer.alloc(200_000)
  let calls = 0
  const origin = await startOrigin((_, answer) => {
    calls++
    answer.writeHead(200, { 'content-length': body.length, ...forever }).end(body)
  })
  t.teardown(origin.stop)
  const route = (label: string) => ({ host: `${label}.apps.localhost`, appId: label, address, port: origin.port })
  const twice = async (label: string, path: string) => {
    for (let n = 0; n < 2; n++) await ask(proxy.port, route(label).host, { path })
  }
  const labels = Array.from({ length: 12 }, (_, n) => `quiet${n}`)
  for (const label of [...labels, 'greedy']) await proxy.edge.setRoute({ ...route(label), version: '1.0' })
  for (const label of labels) await twice(label, '/')
  for (let n = 0; n < 60; n++) await twice('greedy', `/${n}`)
  const folder = join(proxy.config.dataDir, 'proxy/cache')
  await comesTrue(async () => (await diskOf(folder)) <= 8 * 1024 ** 2)
  const before = calls
  for (const label of labels) await ask(proxy.port, route(label).host)
  t.true(calls - before <= 4, `${calls - before} of ${labels.length} were dropped: more than share its part`)
})

test('an application with very many cacheable paths makes the proxy forget nothing of those in other parts', async t => {
  const proxy = await proxied(t, { EDGE_WORKERS: '1' })
  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncache-control: max-age=600\r\n\r\n'
  const ends = (text: string) => text.split('\r\n\r\n').length - 1
  // Not Node's server, which would take most of the time.
  const origin = createServer(socket => {
    socket.on('error', () => {}).on('data', chunk => void socket.write(head.repeat(ends(chunk.toString('latin1')))))
    t.teardown(() => socket.destroy())
  }).listen(0, address)
  await once(origin, 'listening')
  t.teardown(() => void origin.close())
  const { port } = origin.address() as AddressInfo
  const route = (label: string) => ({ host: `${label}.apps.localhost`, appId: label, address, port, version: '1.0' })
  const partOf = (label: string) => crc32(label) % proxyCache.parts
  const quiet = Array.from({ length: 20 }, (_, n) => `quiet${n}`).filter(each => partOf(each) !== partOf('greedy'))
  for (const label of [...quiet, 'greedy']) await proxy.edge.setRoute(route(label))
  const cacheOf = async (label: string) => (await ask(proxy.port, route(label).host)).headers['x-cache'] ?? 'dynamic'
  for (const label of [...quiet, 'greedy']) t.is(await cacheOf(label), 'dynamic')
  // More than fit into the memory of all parts, by requests that do not wait for each other. A connection ends after 10,000.
  const { host } = route('greedy')
  for (let from = 0; from < 72_000; from += 9000) {
    const requests = Array.from({ length: 9000 }, (_, n) => `HEAD /${from + n} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    const last = `HEAD /last HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
    const socket = connect(proxy.port, address)
    socket.write(requests.join('') + last)
    await once(socket.resume(), 'close')
  }
  t.deepEqual(new Set(await Promise.all(quiet.map(cacheOf))), new Set(['miss']))
  t.is(await cacheOf('greedy'), 'dynamic', 'its own part has no room for all')
})

test('with EDGE_CACHE_MB=0 nothing is cached', async t => {
  const proxy = await proxied(t, { EDGE_CACHE_MB: '0' })
  const { get, serve, state } = await app(t, proxy, 'off')
  await serve('1.0')
  for (let n = 0; n < 4; n++) t.like(await get(), { status: 200, cache: 'dynamic' })
  t.is(state.calls, 4)
})
