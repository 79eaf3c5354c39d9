import test from 'ava'
import { edgeActivities } from '../../activities/edge-routes.ts'
import { recordStarted } from '../../db/apps/apps.ts'
import { purgeCache } from '../../db/apps/cache-versions.ts'
import { recordBoot } from '../../db/hosts/host-boots.ts'
import { claimNextOperationFor } from '../../db/operations/operation-claims.ts'
import { enqueueOperation } from '../../db/operations/operations.ts'
import { routeAccount } from '../../policy/edge/route-account.ts'
import { fakeEdge } from '../kit/fakes/edge.ts'
import { asActivity } from '../kit/hosts/activity-context.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

/** A web application on its own host, started by run `lane`, on a machine in boot `now`. */
async function scene(hostId: string) {
  const { db } = await database
  const make = rows(db)
  await make.host(hostId)
  const { app, operationId } = await make.app((await make.user()).id)
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  await db('apps').where({ id: app.id }).update({ release: 1, host_id: hostId })
  const { id } = await enqueueOperation(db, { targetId: app.id, kind: 'start', ownerId: app.owner_id, actor: 'test' })
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, [])
  const edge = fakeEdge()
  const activities = edgeActivities(edge, db, {
    appsDomain: 'apps.test',
    machine: { bootId: 'now', owns: () => true },
  })
  const release = { appId: app.id, number: 1, operationId: id } as never
  const step = <T>(work: () => Promise<T>) => asActivity({ run: 'lane', step: 5 }, work)
  const actual = { hostPort: 4000, hostAddress: '127.0.0.1' }
  return {
    ...{ db, edge, app, operationId: id },
    switchRoute: (bootId?: string) => step(() => activities.switchRoute(release, { ...actual, bootId })),
    routeStands: () => step(() => activities.routeStands(release)),
    started: (bootId: string, hostPort = actual.hostPort) =>
      recordStarted(db, app.id, { ...actual, hostPort, release: 1, containerId: 'c1', startedAt: new Date(), bootId }),
    port: async () => (await edge.listRoutes())[0]?.port,
    version: async () => (await edge.listRoutes())[0]?.version,
    account: async () => (await edge.listRoutes())[0]?.account,
    purge: () => purgeCache(db, app.id),
  }
}

test('a lane with a port of an earlier boot sends no request there', async t => {
  const { db, switchRoute, port } = await scene('reported')
  await recordBoot(db, 'reported', 'now')
  await switchRoute('before')
  t.is(await port(), 0)
  await switchRoute('now')
  t.is(await port(), 4000)
  await switchRoute('before')
  t.is(await port(), 0)
})

test('no port of a host is trusted before it has reported the boot of its machine', async t => {
  const { db, started, switchRoute, routeStands, port } = await scene('behind')
  await recordBoot(db, 'behind', 'before')
  await started('before')
  for (const bootId of ['before', 'now', undefined]) {
    await switchRoute(bootId)
    t.is(await port(), 0, bootId)
  }
  await routeStands()
  t.is(await port(), 0, 'what its row says')
  await recordBoot(db, 'behind', 'now')
  await started('now')
  await routeStands()
  t.is(await port(), 4000)
})

test('a boot that starts while a route is set is noticed afterwards', async t => {
  const { db, edge, switchRoute, port } = await scene('meanwhile')
  await recordBoot(db, 'meanwhile', 'now')
  const { setRoute } = edge
  edge.setRoute = async route => {
    edge.setRoute = setRoute
    await setRoute(route)
    t.is(await port(), 4000)
    await recordBoot(db, 'meanwhile', 'next')
  }
  await switchRoute('now')
  t.is(await port(), 0)
})

test('a route has the version of the release that it leads to, and of the last purge', async t => {
  const { db, switchRoute, routeStands, started, purge, version } = await scene('versions')
  await recordBoot(db, 'versions', 'now')
  await switchRoute('now')
  t.is(await version(), '1.0')
  await purge()
  await switchRoute('now')
  t.is(await version(), '1.1')
  await started('now')
  await purge()
  await routeStands()
  t.is(await version(), '1.2')
})

test('a route names the account of its application’s owner, whichever step sets it', async t => {
  const { db, app, edge, switchRoute, routeStands, started, account } = await scene('owned')
  await recordBoot(db, 'owned', 'now')
  await switchRoute('now')
  t.is(await account(), routeAccount(app.owner_id))
  await started('now')
  await edge.syncRoutes([])
  await routeStands()
  t.is(await account(), routeAccount(app.owner_id))
})

test('a purge while a route is set is not undone', async t => {
  const { db, edge, switchRoute, purge, version } = await scene('purged')
  await recordBoot(db, 'purged', 'now')
  const { setRoute } = edge
  edge.setRoute = async route => {
    edge.setRoute = setRoute
    await purge()
    await setRoute(route)
    t.is(await version(), '1.0')
  }
  await switchRoute('now')
  t.is(await version(), '1.1')
})

for (const [how, change, ends] of [
  ['its operation has ended', { state: 'success' }, false],
  ['another run of its lane has begun', { claim: 'next' }, false],
  ['its application has ended too', { state: 'success' }, true],
] as const)
  test(`an attempt that was suspended leaves no route of the past: ${how}`, async t => {
    const hostId = how.replaceAll(' ', '-')
    const { db, edge, switchRoute, started, port, operationId, app } = await scene(hostId)
    await recordBoot(db, hostId, 'now')
    const { setRoute } = edge
    edge.setRoute = async route => {
      edge.setRoute = setRoute
      await started('now', 4001) // the next operation has gone on meanwhile
      if (ends) await db('apps').where({ id: app.id }).update({ status: 'exited', host_port: null })
      await db('operations').where({ id: operationId }).update(change)
      await setRoute(route)
      t.is(await port(), 4000)
    }
    await switchRoute('now').catch(() => {})
    t.is(await port(), ends ? undefined : 4001)
  })
