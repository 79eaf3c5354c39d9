import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import type { Edge, Route } from '../../activities/edge.ts'
import { removeApp } from '../../db/app-creation.ts'
import * as apps from '../../db/apps.ts'
import { beginBoot } from '../../db/host-boots.ts'
import * as operations from '../../db/operations.ts'
import { keepRoutes, syncRoute, syncRoutes } from '../../workers/route-keeper.ts'
import { testDatabase } from '../kit/database.ts'
import { fakeEdge } from '../kit/edge.fake.ts'
import { rows } from '../kit/rows.ts'

const database = testDatabase()
const appsDomain = 'apps.test'
const machine = { bootId: 'b1', owns: () => true }
const started = { release: 1, containerId: 'c1', hostPort: 4000, startedAt: new Date(), bootId: 'b1' }

const portOf = async (edge: Edge, host: string) => (await edge.listRoutes()).find(route => route.host === host)?.port

async function runningApp() {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app } = await make.app((await make.user()).id)
  await apps.recordStarted(db, app.id, started)
  return { db, app, host: `${app.subdomain}.${appsDomain}` }
}

test.serial('the table becomes what runs: set, moved, and removed when it ended', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host: 'gone.apps.test', appId: 'f'.repeat(24), address: '127.0.0.1', port: 1 })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.deepEqual(await edge.listRoutes(), [{ host, appId: app.id, address: '127.0.0.1', port: 4000 }])
  t.is(await syncRoutes({ db, edge, appsDomain, machine }), 0, 'a second look changes nothing')
  await apps.recordStarted(db, app.id, { ...started, hostPort: 4001 })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is((await edge.listRoutes())[0]?.port, 4001)
  await apps.recordStopped(db, app.id, { code: 1, oom: false, at: new Date() })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.deepEqual(await edge.listRoutes(), [])
})

test.serial('a release that just passed its gate keeps the route that its row does not know yet', async t => {
  const { db } = await database
  const make = rows(db)
  const { app } = await make.app((await make.user()).id)
  const edge = fakeEdge()
  await edge.setRoute({ host: `${app.subdomain}.${appsDomain}`, appId: app.id, address: '127.0.0.1', port: 5000 })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is((await edge.listRoutes()).length, 1)
})

test.serial('a route that a step has just switched is not set back before its row says so', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 4009 })
  const { id } = await operations.enqueue(db, {
    targetId: app.id,
    kind: 'restart',
    ownerId: app.owner_id,
    actor: 'test',
  })
  await db('operations').where({ id }).update({ state: 'running' })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4009)
  await operations.finish(db, id, { state: 'success' })
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 4000)
})

test.serial('a held route is set although an operation of its application runs', async t => {
  const { db, app, host } = await runningApp()
  const edge = fakeEdge()
  await edge.setRoute({ host, appId: app.id, address: '127.0.0.1', port: 0 })
  const { id } = await operations.enqueue(db, {
    targetId: app.id,
    kind: 'restart',
    ownerId: app.owner_id,
    actor: 'test',
  })
  await db('operations').where({ id }).update({ state: 'running' })
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
  await beginBoot(db, 'h1', 'b2')
  t.teardown(() => db('hosts').where({ id: 'h1' }).update({ boot_id: null }))
  await syncRoutes({ db, edge, appsDomain, machine })
  t.is(await portOf(edge, host), 0)
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

test.serial('a crash takes the route away at once, without waiting for the next comparison', async t => {
  const { db, url } = await database
  const { app, host } = await runningApp()
  const edge = fakeEdge()
  const ending = new AbortController()
  const log = pino({ level: 'silent' })
  const keeping = keepRoutes({ db, edge, databaseUrl: url, appsDomain, machine, log, everySeconds: 600 }, ending.signal)
  const has = async () => (await edge.listRoutes()).some(route => route.host === host)
  const until = async (wanted: boolean) => {
    for (let i = 0; i < 100 && (await has()) !== wanted; i++) await sleep(20)
    return has()
  }
  t.true(await until(true))
  const seen = (await apps.loadApp(db, app.id))!
  await apps.recordExit(db, seen, { code: 137, oom: true, at: new Date() })
  t.false(await until(false))
  ending.abort()
  await keeping
})
