import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import { type Edge, type Route, RouteRefused } from '../../../activities/edge/port.ts'
import { bySupervisor } from '../../../cli/doctor/manner.ts'
import { edgeNameFindings, routeFinding } from '../../../cli/doctor/route-state.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import type { AppRow } from '../../../db/apps/app-rows.ts'
import * as apps from '../../../db/apps/apps.ts'
import { owePurge, purgeCache, readCacheVersion } from '../../../db/apps/cache-versions.ts'
import type { Db } from '../../../db/database.ts'
import { changeAppSettings } from '../../../db/domains/app-settings.ts'
import { recordLook } from '../../../db/domains/domain-looks.ts'
import { assignDomain, findDomain } from '../../../db/domains/domains.ts'
import { isBootRouted, recordBoot } from '../../../db/hosts/host-boots.ts'
import * as operations from '../../../db/operations/operations.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { routeAccount } from '../../../policy/edge/route-account.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { DomainRounds } from '../../../workers/loops/domain-rounds.ts'
import { keepRoutes } from '../../../workers/loops/route-keeper.ts'
import { namesWithWrongRoute, syncRoute, syncRoutes } from '../../../workers/loops/route-table.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { fakeEdge } from '../../kit/fakes/edge.ts'
import { logLines } from '../../kit/log-sink.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

/** Without custom names. */
const alone = { domains: { round: async () => ({ refused: [], unanswered: [] }) }, edgeName: 'proxy' }

const database = testDatabase()
const appsDomain = 'apps.test'
const machine = { bootId: 'b1', owns: () => true }
const started = { release: 1, containerId: 'c1', hostPort: 4000, startedAt: new Date(), bootId: 'b1' }

const portOf = async (edge: Edge, host: string) => (await edge.listRoutes()).find(route => route.host === host)?.port

async function runningApp(hostPort = started.hostPort) {
  const { db } = await database
  const make = rows(db)
  await make.host('h1', { memoryMb: 262_144 })
  const { app } = await make.app((await make.user()).id)
  await apps.recordStarted(db, app.id, { ...started, hostPort })
  return { db, app, host: `${app.subdomain}.${appsDomain}`, account: routeAccount(app.owner_id) }
}

/** An operation that has been claimed and may switch the route of its application. */
async function runningRestart(db: Db, { id: targetId, owner_id: ownerId }: AppRow): Promise<{ id: string }> {
  const { id } = await operations.enqueueOperation(db, { targetId, kind: 'restart', ownerId, actor: 'test' })
  await db('operations').where({ id }).update({ state: 'running' })
  return { id }
}

test.serial('the table matches the running applications: set, moved, and removed when they end', async t => {
  const { db, app, host, account } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host: 'gone.apps.test', appId: 'f'.repeat(24), address: '127.0.0.1', port: 1 })
  await syncRoutes({ db, edge, appsDomain, machine })
  const route = { host, appId: app.id, address: '127.0.0.1', port: 4000, version: '1.0', account }
  t.deepEqual(await edge.listRoutes(), [route])
  t.deepEqual(
    await syncRoutes({ db, edge, appsDomain, machine }),
    { changed: 0, refused: [], unsettled: [] },
    'a second look changes nothing',
  )
  await apps.recordStarted(db, app.id, { ...started, hostPort: 4001 })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is((await edge.listRoutes())[0]?.port, 4001)
  await apps.recordStopped(db, app.id, { code: 1, oom: false, at: new Date() })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.deepEqual(await edge.listRoutes(), [])
})

test.serial('a release that has just passed its gate keeps the route that its row does not have yet', async t => {
  const { db } = await database
  const make = rows(db)
  const { app } = await make.app((await make.user()).id)
  const edge = fakeEdge()
  await edge.setRoute({ host: `${app.subdomain}.${appsDomain}`, appId: app.id, address: '127.0.0.1', port: 5000 })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is((await edge.listRoutes()).length, 1)
})

test.serial('a purge takes effect while its application restarts, by announcement and by round', async t => {
  const { db, app, host, account } = await runningApp()
  const edge = fakeEdge()
  const tables = { db, edge, appsDomain, machine }
  await syncRoutes(tables)
  await apps.recordStatus(db, app.id, 'restarting')
  await purgeCache(db, app.id)
  await syncRoutes(tables)
  const route = { host, appId: app.id, address: '127.0.0.1', port: 4000, account }
  t.deepEqual(await edge.findRoutes([host]), [{ ...route, version: '1.1' }])
  await purgeCache(db, app.id)
  await syncRoute(tables, app.id)
  t.deepEqual(await edge.findRoutes([host]), [{ ...route, version: '1.2' }])
})

test.serial('a purge that meets a switch leaves the route that the step has set', async t => {
  const { db, app, host } = await runningApp()
  const fake = fakeEdge()
  const { id } = await runningRestart(db, app)
  await fake.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4000, version: '1.0' })
  await purgeCache(db, app.id)
  let isFirst = true
  const edge: Edge = {
    ...fake,
    async setRoute(route) {
      // Between the keeper's look and its write the step sets the new container, and records it.
      if (isFirst) {
        isFirst = false
        await fake.setRoute({ ...route, port: 4009 })
        await apps.recordStarted(db, app.id, { ...started, hostPort: 4009 })
        await operations.finishOperation(db, id, { state: 'success' })
      }
      await fake.setRoute(route)
    },
  }
  await syncRoute({ db, edge, appsDomain, machine }, app.id)
  t.is(await portOf(fake, host), 4009)
})

test.serial('a purge does not bring back the route of a restart that has just failed', async t => {
  const { db, app, host } = await runningApp()
  const fake = fakeEdge()
  await fake.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4000, version: '1.0' })
  await apps.recordStatus(db, app.id, 'restarting')
  await purgeCache(db, app.id)
  const edge: Edge = {
    ...fake,
    async setRoute(route) {
      await apps.recordStopped(db, app.id, { code: 1, oom: false, at: new Date() })
      await fake.removeRoute(host)
      await fake.setRoute(route)
    },
  }
  await syncRoute({ db, edge, appsDomain, machine }, app.id)
  t.deepEqual(await fake.listRoutes(), [])
})

test.serial('a route that a step has just switched is not reverted before its row is updated', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4009 })
  const { id } = await runningRestart(db, app)
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4009)
  await operations.finishOperation(db, id, { state: 'success' })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4000)
})

test.serial('a purge gives the route another version, and nothing else', async t => {
  const { db, app, host, account } = await runningApp(4011)
  const edge = fakeEdge()
  const tables = { db, edge, appsDomain, machine }
  await syncRoutes(tables)
  await purgeCache(db, app.id)
  t.deepEqual(await namesWithWrongRoute(tables), [host])
  await syncRoute(tables, app.id)
  t.deepEqual(await edge.findRoutes([host]), [
    { host, appId: app.id, address: '127.0.0.1', port: 4011, version: '1.1', account },
  ])
})

test.serial(
  'the keeper does the purges that are owed, and one that fails delays neither others nor routes',
  async t => {
    const { db, app } = await runningApp(4015)
    const { app: stuck, host } = await runningApp(4016)
    await db.raw(`alter table apps add constraint stuck check (id <> '${stuck.id}' or cache_version < 1) not valid`)
    for (const { id } of [stuck, app]) await owePurge(db, id)
    await db('owed_purges').update({ due_at: new Date(0) })
    const stop = new AbortController()
    const { url: databaseUrl } = await database
    const tables = { db, edge: fakeEdge(), appsDomain, machine, ...alone, databaseUrl, log: pino({ level: 'silent' }) }
    const keeping = keepRoutes(tables, stop.signal)
    await comesTrue(async () => (await readCacheVersion(db, app.id)) > 0)
    await comesTrue(async () => (await portOf(tables.edge, host)) === 4016)
    stop.abort()
    await keeping
    await db.raw('alter table apps drop constraint stuck')
    t.is(await readCacheVersion(db, app.id), 1)
  },
)

test.serial('a purge while a release is switched takes effect, and leaves the switched route', async t => {
  const { db, app, host, account } = await runningApp(4012)
  const edge = fakeEdge()
  const tables = { db, edge, appsDomain, machine }
  const switched = { host, appId: app.id, address: '127.0.0.1', port: 4013 }
  await edge.setRoute({ ...switched, version: '2.0' })
  const { id } = await operations.enqueueOperation(db, {
    ...{ targetId: app.id, kind: 'deploy', ownerId: app.owner_id, actor: 'test' },
  })
  await db('operations').where({ id }).update({ state: 'running', step: operations.changingVersions })
  await purgeCache(db, app.id)
  await syncRoute(tables, app.id)
  t.deepEqual(await edge.findRoutes([host]), [{ ...switched, version: '2.1' }])
  await purgeCache(db, app.id)
  t.like(await syncRoutes(tables, [host]), { changed: 1, unsettled: [host] })
  t.deepEqual(await edge.findRoutes([host]), [{ ...switched, version: '2.2' }])
  await operations.finishOperation(db, id, { state: 'error' })
  await syncRoutes(tables, [host])
  t.deepEqual(await edge.findRoutes([host]), [{ ...switched, port: 4012, version: '1.2', account }])
})

test.serial('the routes of one owner name one account, also where a keeper of before has named none', async t => {
  const { db, app, host, account } = await runningApp(4017)
  const { app: other, host: otherHost } = await runningApp(4018)
  const { app: same } = await rows(db).app(app.owner_id)
  await apps.recordStarted(db, same.id, { ...started, hostPort: 4019 })
  const edge = fakeEdge()
  const hosts = [host, otherHost, `${same.subdomain}.${appsDomain}`]
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4017, version: '1.0' })
  const tables = { db, edge, appsDomain, machine }
  t.true((await namesWithWrongRoute(tables)).includes(host))
  await syncRoutes(tables, hosts)
  const named = (await edge.findRoutes(hosts)).map(route => route.account)
  t.deepEqual(named, [account, routeAccount(other.owner_id), account])
  t.not(account, named[1])
  t.regex(account, /^[0-9a-f]{12}$/)
  // Given the version of a purge, it is still of that account.
  await apps.recordStatus(db, app.id, 'restarting')
  await purgeCache(db, app.id)
  await syncRoute(tables, app.id)
  t.like((await edge.findRoutes([host]))[0], { version: '1.1', account })
})

test.serial('a held route is set even while an operation of its application runs', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 0 })
  await runningRestart(db, app)
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4000)
})

test.serial('the name of an application that was restarting when its host rebooted waits for its start', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4000 })
  await apps.recordStatus(db, app.id, 'restarting')
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4000)
  await recordBoot(db, 'h1', 'b2')
  t.teardown(() => db('hosts').where({ id: 'h1' }).update({ boot_id: null }))
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 0)
})

/** An edge that will not have what `refuses` says. */
function choosy(refuses: (route: Route) => boolean): Edge {
  const edge = fakeEdge()
  return {
    ...edge,
    async setRoute(route) {
      if (refuses(route)) throw new RouteRefused('not this one')
      await edge.setRoute(route)
    },
  }
}

test.serial('a route that the proxy refuses delays no others, and is retried', async t => {
  const { db } = await database
  const [one, odd, two] = [await runningApp(4101), await runningApp(4102), await runningApp(4103)]
  let refusing = true
  const edge = choosy(({ host }) => refusing && host === odd.host)
  const ofOthers = { host: 'gone.apps.test', appId: 'f'.repeat(24), address: '127.0.0.1', port: 1 }
  await edge.setRoute(ofOthers)
  const tables = { db, edge, appsDomain, machine }
  t.deepEqual((await syncRoutes(tables)).refused, [
    { host: odd.host, appId: odd.app.id, why: 'not this one', leads: false },
  ])
  t.is(await portOf(edge, one.host), 4101)
  t.is(await portOf(edge, two.host), 4103)
  t.is(await portOf(edge, ofOthers.host), undefined, 'what comes after it in the round is done too')
  t.deepEqual(await namesWithWrongRoute(tables), [odd.host])
  t.regex(
    (await routeFinding(db, bySupervisor, { edge: {} as never, appsDomain }, edge)).state,
    new RegExp(`1 WRONG, the first is ${odd.host}$`),
  )
  refusing = false
  t.deepEqual((await syncRoutes(tables)).refused, [])
  t.is(await portOf(edge, odd.host), 4102)
  t.deepEqual(await namesWithWrongRoute(tables), [])
})

test.serial('after a refused change of a route its name leads nowhere, not to the old target', async t => {
  const { db, host } = await runningApp(4111)
  const edge = choosy(({ port }) => port === 4111)
  await edge.setRoute({ host, appId: 'e'.repeat(24), address: '127.0.0.1', port: 1 })
  t.like((await syncRoutes({ db, edge, appsDomain, machine })).refused, [{ host, leads: false }])
  t.is(await portOf(edge, host), 0)
})

test.serial(
  'a host waits in its new boot while an old route to it can be neither set nor held; others do not',
  async t => {
    const { db, url } = await database
    const { app, host } = await runningApp(4121)
    await rows(db).host('h2')
    let refusing = true
    const edge = choosy(route => refusing && route.host === host)
    refusing = false
    await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4120 })
    refusing = true
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: line => void lines.push(line) })
    const reported = () => lines.filter(line => line.includes(host)).map(line => JSON.parse(line).level)
    await recordBoot(db, 'h1', 'b3')
    await recordBoot(db, 'h2', 'b3')
    t.teardown(() => db('hosts').update({ boot_id: null }))
    const ending = new AbortController()
    const keeping = keepRoutes(
      { ...alone, db, edge, databaseUrl: url, appsDomain, machine, log, everySeconds: 0.05 },
      ending.signal,
    )
    await comesTrue(() => isBootRouted(db, 'h2', 'b3'))
    t.false(await isBootRouted(db, 'h1', 'b3'))
    await comesTrue(async () => reported().length > 0)
    refusing = false
    await comesTrue(() => isBootRouted(db, 'h1', 'b3'))
    t.is(await portOf(edge, host), 0)
    await comesTrue(async () => reported().length > 1)
    ending.abort()
    await keeping
    t.deepEqual(reported(), [50, 30], 'reported when it begins and when it ends')
  },
)

test.serial('a failure to reach the proxy is logged as such, and not as a refusal of the proxy', async t => {
  const { db, url } = await database
  const { log, lines } = logLines<{ level: number; host?: string; why?: string; msg: string }>()
  const unanswered = [{ host: 'acme-challenge', why: 'The key cannot be decrypted.' }]
  let isReadable = false
  const domains = { round: async () => ({ refused: [], unanswered: isReadable ? [] : unanswered }) }
  const ending = new AbortController()
  const keeping = keepRoutes(
    { ...alone, domains, db, edge: fakeEdge(), databaseUrl: url, appsDomain, machine, log, everySeconds: 0.05 },
    ending.signal,
  )
  const reported = () => lines.filter(({ host }) => host === 'acme-challenge')
  await comesTrue(async () => reported().length > 0)
  isReadable = true
  await comesTrue(async () => reported().length > 1)
  ending.abort()
  await keeping
  t.deepEqual(
    reported().map(({ level, why, msg }) => ({ level, why, msg })),
    [
      {
        ...{ level: 50, why: 'The key cannot be decrypted.' },
        msg: 'routes: the proxy cannot answer authorities or probes; it is tried again in each round',
      },
      { level: 30, why: undefined, msg: 'routes: the proxy can answer authorities and probes again' },
    ],
  )
})

test.serial('an application that is deleted while its route is set does not keep it', async t => {
  const { db, app } = await runningApp()
  const edge = fakeEdge()
  const late = {
    ...edge,
    setRoute: async (route: Route) => {
      await removeApp(db, app.id)
      await edge.removeRoute(route.host)
      await edge.setRoute(route)
    },
  }
  await syncRoute({ db, edge: late, appsDomain, machine }, app.id)
  t.deepEqual(await edge.listRoutes(), [])
})

test.serial('a crash removes the route immediately, without waiting for the next comparison', async t => {
  const { db, url } = await database
  const { app, host } = await runningApp()
  const edge = fakeEdge()
  const ending = new AbortController()
  const log = pino({ level: 'silent' })
  const keeping = keepRoutes(
    { ...alone, db, edge, databaseUrl: url, appsDomain, machine, log, everySeconds: 600 },
    ending.signal,
  )
  const has = async () => (await edge.listRoutes()).some(route => route.host === host)
  const until = async (wanted: boolean) => {
    for (let i = 0; i < 1500 && (await has()) !== wanted; i++) await sleep(20)
    return has()
  }
  t.true(await until(true))
  const seen = (await apps.loadApp(db, app.id))!
  await apps.recordExit(db, seen, { code: 137, oom: true, at: new Date() })
  t.false(await until(false))
  ending.abort()
  await keeping
})

test.serial('when a port goes to another application the former one’s route is held immediately', async t => {
  const { db, url } = await database
  const [one, two] = [await runningApp(4131), await runningApp(4132)]
  const edge = fakeEdge()
  const ending = new AbortController()
  const log = pino({ level: 'silent' })
  const keeping = keepRoutes(
    { ...alone, db, edge, databaseUrl: url, appsDomain, machine, log, everySeconds: 600 },
    ending.signal,
  )
  await comesTrue(async () => (await portOf(edge, one.host)) === 4131 && (await portOf(edge, two.host)) === 4132)
  await apps.recordStarted(db, two.app.id, { ...started, hostPort: 4131 })
  await comesTrue(async () => (await portOf(edge, two.host)) === 4131 && (await portOf(edge, one.host)) === 0)
  ending.abort()
  await keeping
  t.like(await apps.loadApp(db, one.app.id), { status: 'running', host_port: null })
})

test.serial('proxies of one name do not acknowledge for each other, and the doctor asks for other names', async t => {
  const { db, url } = await database
  await db('edges').delete()
  const { log } = logLines()
  const stop = new AbortController()
  const keeping = [fakeEdge(), fakeEdge()].map(edge =>
    keepRoutes({ ...alone, db, edge, databaseUrl: url, appsDomain, machine, log }, stop.signal),
  )
  t.teardown(async () => {
    stop.abort()
    await Promise.all(keeping)
    await db('edges').delete()
  })
  await comesTrue(async () => (await db('edges')).length === 2, 10)
  const [finding] = await edgeNameFindings(db)
  t.regex(finding?.state ?? '', /several live proxies are called proxy/)
  t.truthy(finding?.remedy)
  await db('edges').update({ name: db.raw('id') })
  t.deepEqual(await edgeNameFindings(db), [])
})

test.serial(
  'a proxy that has started gets names and settings before routes, and routes also without names',
  async t => {
    const { db, app, host } = await runningApp()
    const { url } = await database
    const hostname = 'early.shop.dev'
    await assignDomain(db, { app, hostname, plans: defaultPlans })
    const proved = { txtSeen: true, cnameSeen: false, points: true, delegated: false, problem: null }
    await recordLook(db, (await findDomain(db, hostname))!, proved)
    await changeAppSettings(db, app, { maintenance: true })
    const fake = fakeEdge()
    const calls: string[] = []
    let run = 'first'
    let isFailing = true
    const edge: Edge = {
      ...fake,
      standing: async () => ({ ...(await fake.standing()), run }),
      setMark: async (of, mark) => {
        if (of === run) await fake.setMark((await fake.standing()).run, mark)
      },
      async setName(name) {
        calls.push(name.host)
        if (isFailing) throw new Error('a failure of the proxy')
        await fake.setName(name)
      },
      async setSettings(wanted) {
        calls.push('settings')
        await fake.setSettings(wanted)
      },
      async setRoute(route) {
        if (route.host === host) calls.push('route')
        isFailing = false
        await fake.setRoute(route)
      },
    }
    const domains = new DomainRounds({
      ...{ db, edge, appsDomain, keys: sealKeys('ab'.repeat(32)) },
      answers: { 'acme-challenge': async () => null, 'berth-check': async () => null },
    })
    const ending = new AbortController()
    const { log } = logLines()
    const keeping = keepRoutes(
      { ...alone, domains, db, edge, databaseUrl: url, appsDomain, machine, log, everySeconds: 0.05 },
      ending.signal,
    )
    const isComplete = async () => (await fake.standing()).mark !== null && (await fake.listNames()).length > 0
    await comesTrue(isComplete)
    t.deepEqual(calls.splice(0), [hostname, 'settings', 'route', hostname])
    // It comes back with empty tables, soon after everything was compared.
    await fake.syncNames([])
    await fake.removeSettings(host)
    run = 'second'
    await fake.syncRoutes([])
    await comesTrue(isComplete)
    ending.abort()
    await keeping
    t.deepEqual(calls, [hostname, 'settings', 'route'])
    await db('domains').delete()
  },
)

test.serial('thousands of names delay the routes of a proxy that has started by a few seconds only', async t => {
  const { db, host } = await runningApp()
  const { url } = await database
  const edge = fakeEdge()
  const ending = new AbortController()
  let isRouted = false
  const domains = {
    async round() {
      const wait = comesTrue(async () => (await portOf(edge, host)) !== undefined)
      isRouted = await wait.then(
        () => true,
        () => false,
      )
      ending.abort()
      return { refused: [], unanswered: [] }
    },
  }
  const { log } = logLines()
  await keepRoutes({ ...alone, domains, db, edge, databaseUrl: url, appsDomain, machine, log }, ending.signal)
  t.true(isRouted)
})

test.serial('a route that changed after it was looked at is not removed', async t => {
  const { db, app, host } = await runningApp()
  await db('apps').where({ id: app.id }).update({ status: 'exited' })
  const edge = fakeEdge()
  const route = { host, appId: app.id, address: '127.0.0.1', port: 4000 }
  const others = [
    { ...route, appId: 'e'.repeat(24) },
    { ...route, port: 4001 },
  ]
  for (const other of others) {
    await edge.setRoute(route)
    const looked = {
      ...edge,
      async findRoutes(hosts: readonly string[]) {
        const found = await edge.findRoutes(hosts)
        await edge.setRoute(other)
        return found
      },
    }
    await syncRoute({ db, edge: looked, appsDomain, machine }, app.id)
    t.deepEqual(await edge.listRoutes(), [other])
  }
  await syncRoute({ db, edge, appsDomain, machine }, app.id)
  t.deepEqual(await edge.listRoutes(), [])
})
