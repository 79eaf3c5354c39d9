import test from 'ava'
import { type Edge, type Route, RouteRefused } from '../../../activities/edge/port.ts'
import { removeApp } from '../../../db/apps/app-creation.ts'
import * as apps from '../../../db/apps/apps.ts'
import { purgeCache } from '../../../db/apps/cache-versions.ts'
import { openDatabase } from '../../../db/database.ts'
import { changeAppSettings } from '../../../db/domains/app-settings.ts'
import { isBootRouted, recordBoot } from '../../../db/hosts/host-boots.ts'
import * as operations from '../../../db/operations/operations.ts'
import { roundSeconds } from '../../../policy/rounds.ts'
import { RouteRounds } from '../../../workers/loops/route-rounds.ts'
import { fakeEdge } from '../../kit/fakes/edge.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

const database = testDatabase({ ownServer: true })
const appsDomain = 'apps.test'
const machine = { bootId: 'b1', owns: () => true }
const started = { release: 1, containerId: 'c1', startedAt: new Date(), bootId: 'b1' }

let proxy: TestProxy
test.before(async () => {
  proxy = await startProxy()
})
test.after.always(() => proxy?.stop())

let ports = 4000

async function runningApp() {
  const { db } = await database
  const make = rows(db)
  await make.host('h1', { memoryMb: 262_144 })
  const { app } = await make.app((await make.user()).id)
  const port = ++ports
  await apps.recordStarted(db, app.id, { ...started, hostPort: port })
  return { id: app.id, host: `${app.subdomain}.${appsDomain}`, port }
}

const portOf = async (edge: Edge, host: string) => (await edge.findRoutes([host]))[0]?.port

/** Rounds that have compared everything once, with a clock of their own. */
async function rounds(edge: Edge) {
  const { db } = await database
  let now = 0
  const later = (seconds: number) => {
    now += seconds * 1000
  }
  const keeper = new RouteRounds({ db, edge, appsDomain, machine, now: () => now })
  const first = await keeper.round()
  return { db, keeper, first, later, round: () => keeper.round() }
}

/** An operation that may move the route of an application. */
async function operation(id: string) {
  const { db } = await database
  const ownerId = (await apps.loadApp(db, id))!.owner_id
  const { id: operationId } = await operations.enqueueOperation(db, {
    targetId: id,
    kind: 'restart',
    ownerId,
    actor: 'test',
  })
  await db('operations').where({ id: operationId }).update({ state: 'running' })
  return operationId
}

test.serial('a round checks names whose rows have changed, and no others', async t => {
  const [moved, removed, still] = [await runningApp(), await runningApp(), await runningApp()]
  const { edge } = proxy
  const { db, first, round } = await rounds(edge)
  t.true(first.whole)
  t.like(await round(), { whole: false, changed: 0 })
  const asked: string[][] = []
  const find = edge.findRoutes
  edge.findRoutes = hosts => {
    asked.push([...hosts])
    return find(hosts)
  }
  t.teardown(() => Object.assign(edge, { findRoutes: find }))
  await db('apps').where({ id: moved.id }).update({ host_port: 5000 })
  await removeApp(db, removed.id)
  t.like(await round(), { whole: false, changed: 2 })
  t.deepEqual(
    asked.map(hosts => hosts.sort()),
    [[moved.host, removed.host].sort()],
  )
  edge.findRoutes = find
  t.is(await portOf(edge, moved.host), 5000)
  t.is(await portOf(edge, removed.host), undefined)
  t.is(await portOf(edge, still.host), still.port)
  t.like(await round(), { whole: false, changed: 0 })
})

test.serial('a route whose row is committed late is set, whatever was committed and compared meanwhile', async t => {
  const [early, late] = [await runningApp(), await runningApp()]
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  const slow = openDatabase({ url: (await database).url, pool: 1 })
  t.teardown(() => slow.destroy())
  const held = await slow.transaction()
  await held('apps').where({ id: early.id }).update({ host_port: 5001 })
  await db('apps').where({ id: late.id }).update({ host_port: 5002 })
  t.like(await round(), { whole: false, changed: 1 })
  await held.commit()
  t.like(await round(), { whole: false, changed: 1 })
  t.is(await portOf(edge, early.host), 5001)
})

test.serial(
  'everything is compared once a minute, and when the proxy was restarted or its mark is not valid',
  async t => {
    const one = await runningApp()
    const { edge } = proxy
    const { round, later, db } = await rounds(edge)
    const wrong = (): Promise<void> =>
      edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
    await wrong()
    later(roundSeconds.everything - 1)
    t.like(await round(), { whole: false, changed: 0 })
    later(1)
    t.like(await round(), { whole: true, changed: 1 })

    await wrong()
    await proxy.kill('SIGKILL')
    await t.throwsAsync(round())
    await proxy.start()
    t.like(await round(), { whole: true, changed: 1 })
    t.like(await round(), { whole: false })

    await wrong()
    const { run } = await edge.standing()
    await edge.setMark(run, 'f00d/1/2 3')
    t.like(await round(), { whole: true, changed: 1 })
    await db.raw('truncate app_changes, app_change_epochs') // as a crash of Postgres leaves them
    t.like(await round(), { whole: true })
    t.like(await round(), { whole: false })
  },
)

test.serial('a proxy that restarts during a round is compared by the next one', async t => {
  const one = await runningApp()
  const edge = fakeEdge()
  let run = 'a'
  const restarting: Edge = {
    ...edge,
    standing: async () => ({ id: null, run, mark: run === 'a' ? (await edge.standing()).mark : null }),
    setMark: async (of, mark) => {
      if (of === run) await edge.setMark((await edge.standing()).run, mark)
    },
    async setRoute(route) {
      await edge.setRoute(route)
      run = 'b'
    },
  }
  const { first, round } = await rounds(restarting)
  t.true(first.whole)
  t.is(await portOf(edge, one.host), one.port)
  t.like(await round(), { whole: true })
})

test.serial('a purge is a change that the next round finds', async t => {
  const one = await runningApp()
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  await purgeCache(db, one.id)
  t.like(await round(), { whole: false, changed: 1 })
  t.is((await edge.findRoutes([one.host]))[0]?.version, '1.1')
})

test.serial('a host in a new boot, or with another address, has all of its routes compared', async t => {
  const one = await runningApp()
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  await recordBoot(db, 'h1', 'b1')
  t.like(await round(), { whole: true })
  t.like(await round(), { whole: false })
  await db('hosts').where({ id: 'h1' }).update({ address: '127.0.0.9' })
  await db('apps').where({ id: one.id }).update({ host_address: null })
  t.like(await round(), { whole: true })
  t.is((await edge.findRoutes([one.host]))[0]?.address, '127.0.0.9')
  await rows(db).host('h1')
  await db('hosts').where({ id: 'h1' }).update({ boot_id: null })
  t.like(await round(), { whole: true })
})

test.serial('a name of an operation in progress is checked until it has ended, although no row changes', async t => {
  const one = await runningApp()
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  const restart = await operation(one.id)
  await edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
  await db('apps').where({ id: one.id }).update({ container_id: 'c2' })
  t.like(await round(), { whole: false, changed: 0, unsettled: [one.host] })
  t.like(await round(), { whole: false, changed: 0, unsettled: [one.host] })
  await operations.finishOperation(db, restart, { state: 'error' })
  t.like(await round(), { whole: false, changed: 1, unsettled: [] })
  t.is(await portOf(edge, one.host), one.port)
})

test.serial('a route that an operation switched and could not restore is found by the round after its end', async t => {
  const one = await runningApp()
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  const restart = await operation(one.id)
  t.like(await round(), { whole: false, changed: 0, unsettled: [] })
  await edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
  await operations.finishOperation(db, restart, { state: 'error' })
  t.like(await round(), { whole: false, changed: 1, unsettled: [] })
  t.is(await portOf(edge, one.host), one.port)

  const again = await operation(one.id)
  await edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
  for (let n = 0; n < 2; n++) t.like(await round(), { whole: false, changed: 0, unsettled: [one.host] })
  await operations.finishOperation(db, again, { state: 'error' })
  t.like(await round(), { whole: false, changed: 1, unsettled: [] })
})

test.serial('a route that was not restored while the proxy hung is found as soon as it answers', async t => {
  const one = await runningApp()
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  const { standing } = edge
  t.teardown(() => Object.assign(edge, { standing }))
  const restart = await operation(one.id)
  await edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
  edge.standing = async () => Promise.reject(new Error('no answer'))
  await t.throwsAsync(round())
  await operations.finishOperation(db, restart, { state: 'error' })
  await t.throwsAsync(round())
  edge.standing = standing
  t.like(await round(), { whole: false, changed: 1 })
  t.is(await portOf(edge, one.host), one.port)
  t.like(await round(), { whole: false, changed: 0 })
})

test.serial('a route that the proxy refuses is retried in every round', async t => {
  const one = await runningApp()
  const edge = fakeEdge()
  let refusing = false
  const choosy: Edge = {
    ...edge,
    async setRoute(route: Route) {
      if (refusing && route.host === one.host) throw new RouteRefused('not this one')
      await edge.setRoute(route)
    },
  }
  const { db, round } = await rounds(choosy)
  refusing = true
  await db('apps').where({ id: one.id }).update({ host_port: 5003 })
  for (let n = 0; n < 2; n++) t.like(await round(), { whole: false, refused: [{ host: one.host, leads: true }] })
  refusing = false
  t.like(await round(), { whole: false, changed: 1, refused: [] })
  t.is(await portOf(edge, one.host), 5003)
})

test.serial('a keeper that takes over from another compares everything first', async t => {
  const one = await runningApp()
  const { edge } = proxy
  await rounds(edge)
  await edge.setRoute({ host: one.host, appId: one.id, address: '127.0.0.1', port: 1, version: '1.0' })
  const { first } = await rounds(edge)
  t.like(first, { whole: true, changed: 1 })
})

test.serial('settings of an application are at the proxy with the next round, also while it is stopped', async t => {
  const [app, other] = [await runningApp(), await runningApp()]
  const { edge } = proxy
  const { db, round, later } = await rounds(edge)
  const rowOf = async ({ id }: { id: string }) => (await apps.loadApp(db, id))!
  const versions = async () => new Map((await edge.listSettings()).map(({ host, version }) => [host, version]))
  await changeAppSettings(db, await rowOf(app), { maintenance: true })
  t.like(await round(), { whole: false, refusedSettings: [] })
  const first = (await versions()).get(app.host)
  t.truthy(first)
  t.false((await versions()).has(other.host))
  await apps.recordStopped(db, app.id, { code: 0, oom: false, at: new Date() })
  await changeAppSettings(db, await rowOf(app), { error_page: 'Back soon.' })
  await round()
  t.true((await versions()).has(app.host))
  t.not((await versions()).get(app.host), first)

  await edge.removeSettings(app.host)
  await edge.setSettings({
    ...{ host: other.host, appId: other.id, version: 'stray', minTls: '1.3', hsts: null, requestsPerMinute: null },
    ...{ blockedNetworks: [], maintenance: true, pages: { error: null, maintenance: null } },
  })
  t.like(await round(), { whole: false })
  t.true((await versions()).has(other.host), 'nothing has changed in Postgres')
  later(roundSeconds.everything)
  t.like(await round(), { whole: true })
  t.deepEqual([(await versions()).has(app.host), (await versions()).has(other.host)], [true, false])

  await db('apps')
    .where({ id: app.id })
    .update({ subdomain: `${app.id}-moved` })
  await round()
  t.deepEqual(
    [...(await versions()).keys()].filter(host => host.includes(app.id) || host === app.host),
    [`${app.id}-moved.${appsDomain}`],
  )
  await removeApp(db, app.id)
  await round()
  t.deepEqual(
    [...(await versions()).keys()].filter(host => host.includes(app.id)),
    [],
  )
})

for (const what of ['cannot be set', 'take long'])
  test.serial(`settings that ${what} keep neither routes from a proxy that has started, nor hosts waiting`, async t => {
    const app = await runningApp()
    const { db } = await database
    await changeAppSettings(db, (await apps.loadApp(db, app.id))!, { maintenance: true })
    const fake = fakeEdge()
    let hasRoutes = () => {}
    const routed = new Promise<void>(resolve => {
      hasRoutes = resolve
    })
    const edge: Edge = {
      ...fake,
      async setSettings() {
        if (what === 'take long') await routed
        throw new Error('a failure of the proxy')
      },
      async setRoute(route) {
        await fake.setRoute(route)
        if (route.host === app.host) hasRoutes()
      },
    }
    await recordBoot(db, 'h1', 'b1')
    await t.throwsAsync(rounds(edge), { message: 'a failure of the proxy' })
    t.is(await portOf(edge, app.host), app.port)
    t.true(await isBootRouted(db, 'h1', 'b1'))
    await db('hosts').where({ id: 'h1' }).update({ boot_id: null })
    await db('app_settings').delete()
  })

test.serial('settings that the proxy refuses are reported, delay no others, and are tried again', async t => {
  const [bad, good] = [await runningApp(), await runningApp()]
  const { edge } = proxy
  const { db, round } = await rounds(edge)
  for (const { id } of [bad, good]) await changeAppSettings(db, (await apps.loadApp(db, id))!, { maintenance: true })
  const set = { blocked_networks: ['no network'] }
  await db('app_settings')
    .where({ app_id: bad.id })
    .update({ settings: JSON.stringify(set) })
  for (let turn = 0; turn < 2; turn++) {
    const { refusedSettings } = await round()
    t.deepEqual(
      refusedSettings.map(({ host }) => host),
      [bad.host],
    )
    t.regex(refusedSettings[0]!.why, /"no network" is no network/)
  }
  t.true((await edge.listSettings()).some(({ host }) => host === good.host))
  await db('app_settings').where({ app_id: bad.id }).update({ settings: '{}' })
  t.deepEqual((await round()).refusedSettings, [])
})
