import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import autocannon from 'autocannon'
import test from 'ava'
import { nginxEdge } from '../../activities/edge/nginx.ts'
import { type Route, RouteRefused } from '../../activities/edge/port.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { demandRoot } from '../kit/root.ts'
import { ask, named } from '../kit/servers/origin.ts'
import { startOlderProxy, startProxy, statusOfLine, type TestProxy } from '../kit/servers/proxy.ts'

let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy()
})
test.after.always(() => proxy?.stop())

const routeTo = (label: string, port: number): Route => ({
  host: `${label}.apps.localhost`,
  appId: '0123456789abcdef01234567',
  address: '127.0.0.1',
  port,
})

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

test.serial('10,000 routes are set in one call, and a change among them costs less than a tenth of it', async t => {
  const origin = await named('found')
  t.teardown(origin.stop)
  const many = Array.from({ length: 10_000 }, (_, index) => routeTo(`app-${index}`, origin.port))
  const sync = await milliseconds(() => proxy.edge.syncRoutes(many))
  const changes: number[] = []
  for (let index = 0; index < 200; index++)
    changes.push(await milliseconds(() => proxy.edge.setRoute(routeTo(`new-${index}`, origin.port))))
  changes.sort((one, other) => one - other)
  const median = changes[100]!
  t.log(`sync ${sync.toFixed(0)} ms, change median ${median.toFixed(2)} ms, p95 ${changes[190]!.toFixed(2)} ms`)
  t.true(median < sync / 10, `a change took ${median} ms, all routes ${sync}`)
  t.is((await proxy.edge.listRoutes()).length, 10_200)
  for (const host of ['app-0', 'app-9999', 'new-199'])
    t.is((await ask(proxy.port, `${host}.apps.localhost`)).body, 'found')
})

test.serial('a route that moves back and forth under load fails no request', async t => {
  const origins = await Promise.all([named('one'), named('two')])
  for (const origin of origins) t.teardown(origin.stop)
  await proxy.edge.setRoute(routeTo('moving', origins[0]!.port))
  const load = autocannon({
    url: `http://127.0.0.1:${proxy.port}`,
    connections: 20,
    duration: 120, // it is stopped after the last switch
    headers: { host: 'moving.apps.localhost' },
  }) as Promise<autocannon.Result> & autocannon.Instance
  for (let switches = 1; switches <= 100; switches++) {
    await proxy.edge.setRoute(routeTo('moving', origins[switches % 2]!.port))
    t.is((await ask(proxy.port, 'moving.apps.localhost')).body, switches % 2 ? 'two' : 'one')
    await new Promise(resolve => setTimeout(resolve, 10))
  }
  load.stop()
  const result = await load
  t.log(`${result['2xx']} requests over 100 switches`)
  t.true(result['2xx'] > 100, 'there was load between the switches')
  t.deepEqual([result.errors, result.timeouts, result.non2xx], [0, 0, 0])
})

test.serial('old containers may end right after the switch: requests in progress go to the new one', async t => {
  let old = await named('old')
  await proxy.edge.setRoute(routeTo('replaced', old.port))
  const load = autocannon({
    url: `http://127.0.0.1:${proxy.port}`,
    connections: 10,
    duration: 2,
    headers: { host: 'replaced.apps.localhost' },
  })
  for (let turn = 0; turn < 8; turn++) {
    await new Promise(resolve => setTimeout(resolve, 200))
    const next = await named(`turn ${turn}`)
    await proxy.edge.setRoute(routeTo('replaced', next.port))
    await old.stop()
    old = next
  }
  const result = await load
  await old.stop()
  t.deepEqual([result.errors, result.timeouts, result.non2xx], [0, 0, 0])
})

test.serial('a killed proxy comes back with its routes, and its old workers release the port', async t => {
  const origin = await named('kept')
  t.teardown(origin.stop)
  await proxy.edge.syncRoutes([routeTo('kept', origin.port), routeTo('gone', origin.port)])
  await proxy.edge.removeRoute('gone.apps.localhost')
  await proxy.edge.setRoute(routeTo('late', origin.port))
  const before = await proxy.edge.standing()
  await proxy.edge.setMark(before.run, 'complete')
  await proxy.kill('SIGKILL')
  await proxy.start()
  const after = await proxy.edge.standing()
  t.not(after.run, before.run)
  await proxy.edge.setMark(before.run, 'of before')
  t.deepEqual(
    await proxy.edge.standing(),
    { id: before.id, run: after.run, mark: null },
    'it knows what its file knows',
  )
  t.deepEqual((await proxy.edge.listRoutes()).map(route => route.host).sort(), [
    'kept.apps.localhost',
    'late.apps.localhost',
  ])
  t.is((await ask(proxy.port, 'late.apps.localhost')).body, 'kept')
  t.is((await ask(proxy.port, 'gone.apps.localhost')).status, 404)
})

test.serial('a line torn by a crash loses only that line', async t => {
  const origin = await named('whole')
  t.teardown(origin.stop)
  await proxy.edge.syncRoutes([routeTo('whole', origin.port)])
  await proxy.kill('SIGKILL')
  const { appendFile } = await import('node:fs/promises')
  await appendFile(proxy.config.edge.routesFile, '\n{"host":"torn.apps.localhost","appId":"a1","addr')
  await proxy.start()
  await proxy.edge.setRoute(routeTo('after', origin.port))
  await proxy.kill('SIGKILL')
  await proxy.start()
  t.deepEqual((await proxy.edge.listRoutes()).map(route => route.host).sort(), [
    'after.apps.localhost',
    'whole.apps.localhost',
  ])
})

test.serial('routes of a proxy from before versions and accounts are read, and are set with them', async t => {
  const origin = await named('older')
  t.teardown(origin.stop)
  const { edge, config, kill, start } = proxy
  await edge.syncRoutes([])
  const { version: _, ...older } = { ...routeTo('older', origin.port), version: '1.0' }
  await kill('SIGKILL')
  const { appendFile } = await import('node:fs/promises')
  await appendFile(config.edge.routesFile, `\n${JSON.stringify(older)}`)
  await start()
  t.deepEqual(await edge.listRoutes(), [older])
  t.is((await ask(proxy.port, older.host)).body, 'older')
  for (const now of [
    { ...older, version: '1.0' },
    { ...older, version: '1.0', account: 'a0' },
  ]) {
    await edge.setRoute(now)
    await kill('SIGKILL')
    await start()
    t.deepEqual(await edge.listRoutes(), [now])
  }
})

test.serial('a route that the proxy refuses is distinguished from a proxy that is down', async t => {
  await proxy.edge.syncRoutes([])
  const zoned = { ...routeTo('zoned', 1), address: 'fe80::1%lo' }
  await t.throwsAsync(proxy.edge.setRoute(zoned), { instanceOf: RouteRefused, message: /malformed route/ })
  const away = nginxEdge('/nowhere/control.sock')
  t.false((await t.throwsAsync(away.setRoute(routeTo('away', 1)))) instanceof RouteRefused)
})

test.serial('the file of routes does not grow with the number of changes', async t => {
  await proxy.edge.syncRoutes([routeTo('steady', await unusedPort())])
  for (let port = 1; port <= 1100; port++) await proxy.edge.setRoute(routeTo('steady', port))
  const lines = (await readFile(proxy.config.edge.routesFile, 'utf8')).split('\n')
  t.true(lines.length < 1010, `${lines.length} lines`)
  t.is(JSON.parse(lines.at(-1)!).port, 1100)
})

test.serial('on a full disk routes still change, and a proxy that starts from the old file holds them', async t => {
  demandRoot()
  const folder = await mkdtemp(join(tmpdir(), 'berth-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=1777', 'none', folder])
  const full = await startProxy({ EDGE_ROUTES_FILE: join(folder, 'routes.json') })
  const [before, after] = [await named('before'), await named('after')]
  t.teardown(async () => {
    await Promise.all([full.stop(), before.stop(), after.stop()])
    execFileSync('umount', [folder])
    await rm(folder, { recursive: true })
  })
  const page = async (name: string) => (await ask(full.port, `${name}.apps.localhost`)).body
  const statusOf = async (name: string) => (await ask(full.port, `${name}.apps.localhost`)).status
  const terms = { version: '1.0', account: 'a0' }
  for (const name of ['moved', 'ended']) await full.edge.setRoute({ ...routeTo(name, before.port), ...terms })
  const filler = join(folder, 'filler')
  await t.throwsAsync(writeFile(filler, Buffer.alloc(1_000_000)), { code: 'ENOSPC' })

  // More than fits into what the file has of its last page.
  for (let n = 0; n < 60; n++) await full.edge.setRoute(routeTo(`late-${n}`, after.port))
  await full.edge.setRoute(routeTo('moved', after.port))
  await full.edge.removeRoute('ended.apps.localhost')
  t.is(await page('moved'), 'after')
  t.is(await page('late-59'), 'after')
  t.is(await statusOf('ended'), 404)

  await full.kill('SIGKILL')
  await full.start()
  t.is(await statusOf('moved'), 503, 'where it leads to now is not in the file')
  t.deepEqual(await full.edge.findRoutes(['moved.apps.localhost']), [{ ...routeTo('moved', 0), ...terms }])
  await full.edge.setRoute(routeTo('moved', after.port))
  t.is(await page('moved'), 'after')

  await rm(filler)
  await full.edge.listRoutes()
  await full.kill('SIGKILL')
  await full.start()
  t.is(await page('moved'), 'after', 'there is room again')
})

test.serial(
  'a proxy of before, whose removals have no condition, removes the route that is meant and no other',
  async t => {
    const older = await startOlderProxy({
      'routes.lua': [[/ {2}if from then .*\n/, '']],
      'journal.lua': [[/"id":"' \.\. proxy_id \.\. '",/, '']],
    })
    t.teardown(older.stop)
    const route = { host: 'a.apps.localhost', appId: 'a1', address: '127.0.0.1', port: 4000 }
    await older.edge.setRoute(route)
    t.is((await older.edge.standing()).id, null)
    t.is(await statusOfLine(older, 'routes', JSON.stringify({ host: route.host, appId: 'a1', removed: true })), 422)
    for (const other of [{ appId: 'b2' }, { appId: 'a1', port: 4001 }]) await older.edge.removeRoute(route.host, other)
    t.deepEqual(await older.edge.listRoutes(), [route])
    await older.edge.removeRoute(route.host, route)
    t.deepEqual(await older.edge.listRoutes(), [])
    await older.edge.removeRoute(route.host, route)
  },
)

test.serial('a proxy of before, which knows no accounts, gets its routes without', async t => {
  const older = await startOlderProxy({ 'routes.lua': [[/,"account":"\(%x\+\)"/, ',"unknown":"(%x+)"']] })
  t.teardown(older.stop)
  const origin = await named('older')
  t.teardown(origin.stop)
  const plain = { ...routeTo('plain', origin.port), version: '1.0' }
  const wanted = { ...plain, account: 'a0' }
  t.is(await statusOfLine(older, 'routes', JSON.stringify(wanted)), 422)
  await older.edge.setRoute(wanted)
  t.deepEqual(await older.edge.listRoutes(), [plain])
  await older.edge.syncRoutes([{ ...routeTo('other', 1), account: 'a0' }, wanted])
  t.deepEqual((await older.edge.listRoutes()).map(({ host }) => host).sort(), [
    'other.apps.localhost',
    'plain.apps.localhost',
  ])
  t.is((await ask(older.port, plain.host)).body, 'older')
  await t.throwsAsync(older.edge.setRoute({ ...wanted, address: 'fe80::1%lo' }), { instanceOf: RouteRefused })
})

test.serial('lines whose account is none are refused by the proxy itself', async t => {
  await proxy.edge.syncRoutes([])
  const start = '{"host":"a.org","appId":"a1","address":"127.0.0.1","port":1'
  const ends = ['"account":""', '"account":"x"', '"account":"a b"', '"account":1', '"account":"a","account":"b"']
  for (const end of [...ends, '"account":"a","version":"1"', '"account":"a"}{"x":"y"'])
    t.is(await statusOfLine(proxy, 'routes', `${start},${end}}`), 422, end)
  t.deepEqual(await proxy.edge.listRoutes(), [])
})
