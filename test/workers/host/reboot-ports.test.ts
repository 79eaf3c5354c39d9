import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import { routeGate } from '../../../activities/hosts/route-gate.ts'
import * as apps from '../../../db/apps/apps.ts'
import { isBootRouted, recordBoot } from '../../../db/hosts/host-boots.ts'
import { up } from '../../../db/migrations/015-host-boots.ts'
import { keepRoutes } from '../../../workers/loops/route-keeper.ts'
import { syncRoutes } from '../../../workers/loops/route-table.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { inBoot } from '../../kit/hosts/boots.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { ask, startOrigin } from '../../kit/servers/origin.ts'
import { startProxy } from '../../kit/servers/proxy.ts'

/** Without custom names. */
const alone = { domains: { round: async () => ({ refused: [], unanswered: [] }) }, edgeName: 'proxy' }

const database = testDatabase()
const appsDomain = 'apps.localhost'
/** The machine of the hosts and the proxy, in one of its boots. */
const machineIn = (bootId: string) => ({ bootId, owns: () => true })
const log = pino({ level: 'silent' })

/** A web application of an owner of its own on this host. */
async function webApp(hostId: string) {
  const { db } = await database
  const make = rows(db)
  await make.host(hostId)
  const { app } = await make.app((await make.user()).id)
  await db('apps').where({ id: app.id }).update({ host_id: hostId })
  return { ...app, host: `${app.subdomain}.${appsDomain}` }
}

/** A port of the host that is never anybody else's; whose program answers there, if any, is to be said. */
async function portOfHost() {
  const place = { says: null as string | null }
  const origin = await startOrigin((request, answer) => {
    if (place.says === null) request.destroy()
    else answer.end(place.says)
  })
  return Object.assign(place, origin)
}

const startedAt = (hostPort: number, bootId: string) => ({
  ...{ release: 1, containerId: 'c1', startedAt: new Date() },
  hostPort,
  bootId,
})

test.serial('after a reboot ports are reallocated: no name ever answers with another application’s page', async t => {
  t.timeout(120_000)
  const { db, url } = await database
  const hostId = 'exchanged'
  const [a, b] = [await webApp(hostId), await webApp(hostId)]
  const proxy = await startProxy()
  t.teardown(() => proxy.stop())
  const keeper = (bootId: string, { signal }: AbortController) =>
    keepRoutes(
      {
        ...alone,
        db,
        edge: proxy.edge,
        databaseUrl: url,
        appsDomain,
        machine: machineIn(bootId),
        log,
        everySeconds: 1,
      },
      signal,
    )
  const page = (host: string) => ask(proxy.port, host).catch(error => ({ status: 0, body: String(error) }))

  await recordBoot(db, hostId, 'boot-1')
  const [one, two] = [await portOfHost(), await portOfHost()]
  t.teardown(() => Promise.all([one.stop(), two.stop()]))
  one.says = 'A'
  two.says = 'B'
  await apps.recordStarted(db, a.id, startedAt(one.port, 'boot-1'))
  await apps.recordStarted(db, b.id, startedAt(two.port, 'boot-1'))
  const first = new AbortController()
  const kept = keeper('boot-1', first)
  await comesTrue(async () => (await page(a.host)).body === 'A' && (await page(b.host)).body === 'B')

  // The machine goes down with everything on it, and comes back: first the proxy, with what it remembers.
  first.abort()
  await kept
  await proxy.kill('SIGKILL')
  one.says = null
  two.says = null
  const file = proxy.config.edge.routesFile
  writeFileSync(file, readFileSync(file, 'utf8').replace(/"boot":"[^"]+"/, '"boot":"of-before"'))
  await proxy.start()
  const seen = { a: new Set<string>(), b: new Set<string>() }
  let over = false
  const asking = (async () => {
    while (!over) {
      seen.a.add((await page(a.host)).body)
      seen.b.add((await page(b.host)).body)
    }
  })()
  t.like(await ask(proxy.port, a.host), { status: 503 })
  const { headers } = await ask(proxy.port, a.host)
  t.truthy(headers['retry-after'])

  // A keeper that is there before the host does not believe its rows, whatever listens on their ports by now.
  one.says = 'B'
  await syncRoutes({ db, edge: proxy.edge, appsDomain, machine: machineIn('boot-2') })
  t.is((await page(a.host)).status, 503)
  one.says = null

  // Then the host, while nothing updates the proxy yet: nothing with a port is started.
  await recordBoot(db, hostId, 'boot-2')
  const opens = routeGate(db, hostId, inBoot('boot-2'), 20)(new AbortController().signal)
  t.is(await Promise.race([opens, sleep(300, 'waits')]), 'waits')
  const second = new AbortController()
  const keeping = keeper('boot-2', second)
  await opens

  // B's container is first, and gets the port that A had.
  one.says = 'B'
  await apps.recordStarted(db, b.id, startedAt(one.port, 'boot-2'))
  await comesTrue(async () => (await page(b.host)).body === 'B')
  t.is((await page(a.host)).status, 503, 'A has not started yet')
  two.says = 'A'
  await apps.recordStarted(db, a.id, startedAt(two.port, 'boot-2'))
  await comesTrue(async () => (await page(a.host)).body === 'A')
  over = true
  await asking
  t.false(seen.a.has('B'))
  t.false(seen.b.has('A'))
  second.abort()
  await keeping
})

test.serial('routes from a file without a boot are held until the first round of the keeper', async t => {
  t.timeout(60_000)
  const { db, url } = await database
  const app = await webApp('upgraded')
  const place = await portOfHost()
  place.says = 'still here'
  const proxy = await startProxy()
  t.teardown(() => Promise.all([proxy.stop(), place.stop()]))
  await recordBoot(db, 'upgraded', 'boot-1')
  await apps.recordStarted(db, app.id, startedAt(place.port, 'boot-1'))
  await proxy.edge.setRoute({ host: app.host, appId: app.id, address: '127.0.0.1', port: place.port })
  t.is((await ask(proxy.port, app.host)).body, 'still here')
  await proxy.kill('SIGKILL')
  const file = proxy.config.edge.routesFile
  const lines = readFileSync(file, 'utf8').split('\n')
  writeFileSync(file, lines.filter(line => !line.startsWith('{"boot"')).join('\n'))
  await proxy.start()
  t.is((await ask(proxy.port, app.host)).status, 503)

  const opened = performance.now()
  const ending = new AbortController()
  const keeping = keepRoutes(
    { ...alone, db, edge: proxy.edge, databaseUrl: url, appsDomain, machine: machineIn('boot-1'), log },
    ending.signal,
  )
  await comesTrue(async () => (await ask(proxy.port, app.host)).body === 'still here')
  t.log(`the keeper needs ${Math.round(performance.now() - opened)} ms`)
  ending.abort()
  await keeping
  await proxy.kill('SIGKILL')
  await proxy.start()
  t.is((await ask(proxy.port, app.host)).body, 'still here', 'from here on the file names its boot')
})

test.serial(
  'a port belongs to the application that got it last: an older claim is void, and its route is held',
  async t => {
    const { db } = await database
    const hostId = 'claims'
    const [a, b] = [await webApp(hostId), await webApp(hostId)]
    const port = 4000
    await apps.recordStarted(db, a.id, startedAt(port, 'boot-1'))
    await apps.recordStarted(db, b.id, startedAt(port, 'boot-1'))
    t.like(await apps.loadApp(db, a.id), { status: 'running', host_port: null })
    t.like((await apps.listServingApps(db, a.id))[0], { host_port: 0 })
    t.like((await apps.listServingApps(db, b.id))[0], { host_port: port })
    await t.throwsAsync(db('apps').where({ id: a.id }).update({ host_port: port }), { code: '23505' })
    // At an address of its own the same number is another port.
    await apps.recordStarted(db, a.id, { ...startedAt(port, 'boot-1'), hostAddress: '127.0.39.17' })
    t.like((await apps.listServingApps(db, a.id))[0], { address: '127.0.39.17', host_port: port })
    t.like((await apps.listServingApps(db, b.id))[0], { address: '127.0.0.1', host_port: port })
    // An older host does not report the address: it is the host's own.
    await apps.recordStarted(db, a.id, { ...startedAt(port, 'boot-1'), hostAddress: '127.0.0.1' })
    t.like((await apps.listServingApps(db, b.id))[0], { host_port: 0 })
  },
)

test.serial('ports of an earlier boot are free, also one that is recorded late', async t => {
  const { db } = await database
  const hostId = 'late'
  const app = await webApp(hostId)
  await apps.recordStarted(db, app.id, startedAt(1, 'boot-1'))
  await recordBoot(db, hostId, 'boot-2')
  t.like(await apps.loadApp(db, app.id), { host_port: null }, 'its claim is void')
  t.like((await apps.listServingApps(db, app.id))[0], { host_port: 0 })
  await apps.recordStarted(db, app.id, startedAt(1, 'boot-1'))
  t.like((await apps.listServingApps(db, app.id))[0], { host_port: 0 })
  // An older version that writes late compares no boots.
  await db('apps').where({ id: app.id }).update({ host_port: 1, boot_id: 'boot-1' })
  t.like((await apps.listServingApps(db, app.id))[0], { host_port: 0 })
  await apps.recordStarted(db, app.id, startedAt(2, 'boot-2'))
  t.like((await apps.listServingApps(db, app.id))[0], { host_port: 2 })
  await apps.recordStarted(db, (await webApp(hostId)).id, startedAt(2, 'boot-1'))
  t.like((await apps.listServingApps(db, app.id))[0], { host_port: 2 }, 'what comes late takes no port from anybody')
  t.false(await isBootRouted(db, hostId, 'boot-2'))
  await recordBoot(db, hostId, 'boot-2')
  t.like(await apps.loadApp(db, app.id), { host_port: 2 }, 'a host process that starts over changes nothing')
})

test.serial('existing claims of one port are settled by the migration: the newest start wins', async t => {
  const { db } = await database
  const hostId = 'before'
  const [a, b, c] = [await webApp(hostId), await webApp(hostId), await webApp(hostId)]
  let ports: string[] = []
  const migrating = db.transaction(async trx => {
    await trx.raw('drop index apps_host_port')
    await trx.raw('alter table hosts drop column boot_id, drop column routed_boot_id')
    const claim = (id: string, host_port: number, started_at: string | null) =>
      trx('apps').where({ id }).update({ host_port, started_at })
    await claim(a.id, 5000, '2026-01-01')
    await claim(b.id, 5000, '2026-01-02')
    await claim(c.id, 5000, null)
    await up(trx)
    ports = await trx('apps').where({ host_id: hostId, host_port: 5000 }).pluck('id')
    throw new Error('seen')
  })
  await t.throwsAsync(migrating, { message: 'seen' })
  t.deepEqual(ports, [b.id])
})
