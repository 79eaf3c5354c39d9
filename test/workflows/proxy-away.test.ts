import test from 'ava'
import { loadApp } from '../../db/apps/apps.ts'
import * as operations from '../../db/operations/operations.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepHistory } from '../kit/platform/histories.ts'
import { deployKit } from './deploy-kit.ts'
import { portOf } from './ports.ts'

const kit = deployKit()

/** Applications whose routes the proxy rejects, as if it were unreachable. */
const away = new Set<string>()
/** The state of the last operation of an application when its route was set first. */
const firstRouted = new Map<string, string>()

test.before(async t => {
  t.timeout(120_000)
  const { edge, db } = await kit
  const { setRoute, removeRoute } = edge
  edge.setRoute = async route => {
    const last = await db('operations').where({ target_id: route.appId }).orderBy('seq', 'desc').first('state')
    if (!firstRouted.has(route.appId)) firstRouted.set(route.appId, last.state)
    if (away.has(route.appId)) throw new Error('The proxy does not answer.')
    await setRoute(route)
  }
  edge.removeRoute = async host => {
    const [subdomain] = host.split('.')
    const app = await db('apps').where({ subdomain }).first('id')
    if (app && away.has(app.id)) throw new Error('The proxy does not answer.')
    await removeRoute(host)
  }
})

const portIn = async (appId: string) => {
  const { edge } = await kit
  return (await edge.listRoutes()).find(route => route.appId === appId)?.port
}

test('an application that is created while the proxy is unreachable exists, and gets its route when the proxy is back', async t => {
  t.timeout(120_000)
  const { db, make, lanes, run, client } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  away.add(app.id)
  await lanes.wake(app.id, user.id)
  t.like(await run.ended(operationId), { state: 'success', code: null })
  t.like(await loadApp(db, app.id), { status: 'running', host_port: portOf(app.id, 1) })
  t.is(await portIn(app.id), undefined)
  away.delete(app.id)
  await comesTrue(async () => (await portIn(app.id)) === portOf(app.id, 1))
  await keepHistory(client, 'create-proxy-away', app.id)
})

test('a deploy while the proxy is unreachable: the old version is removed only after the proxy has the new route', async t => {
  t.timeout(120_000)
  const { db, running, push, steps, client } = await kit
  const app = await running()
  away.add(app.id)
  const { end } = await push(app)
  t.like(await end(), { state: 'success', code: null })
  t.like(await loadApp(db, app.id), { release: 2, host_port: portOf(app.id, 2), status: 'running' })
  t.is(await portIn(app.id), portOf(app.id, 1), 'the proxy sends requests to the old version')
  t.deepEqual((await steps(app, 4)).slice(4), [], 'which is there')
  away.delete(app.id)
  t.deepEqual((await steps(app, 7)).slice(4), ['stopApp 1', 'removeContainer 1', 'settleFiles 2'])
  t.is(await portIn(app.id), portOf(app.id, 2))
  await keepHistory(client, 'deploy-proxy-away', app.id)
})

test('a restart whose start fails while the proxy is unreachable leaves the application shown as stopped', async t => {
  t.timeout(120_000)
  const { db, running, lanes, run, behave, client } = await kit
  const app = await running()
  behave(app, { startFails: true })
  away.add(app.id)
  const request = { targetId: app.id, kind: 'restart', ownerId: app.owner_id, actor: app.owner_id } as const
  const { id } = await operations.enqueueOperation(db, request)
  await lanes.wake(app.id, app.owner_id)
  t.like(await run.ended(id), { state: 'error' })
  t.like(await loadApp(db, app.id), { status: 'exited', host_port: null })
  away.delete(app.id)
  await comesTrue(async () => (await portIn(app.id)) === undefined)
  await keepHistory(client, 'restart-failed', app.id)
})

test('a stop while the proxy is unreachable succeeds, and the route is removed when the proxy is back', async t => {
  t.timeout(120_000)
  const { db, running, lanes, run, client } = await kit
  const app = await running()
  away.add(app.id)
  const request = { targetId: app.id, kind: 'stop', ownerId: app.owner_id, actor: app.owner_id } as const
  const { id } = await operations.enqueueOperation(db, request)
  await lanes.wake(app.id, app.owner_id)
  t.like(await run.ended(id), { state: 'success' })
  t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'stopped' })
  away.delete(app.id)
  await comesTrue(async () => (await portIn(app.id)) === undefined)
  await keepHistory(client, 'stop-proxy-away', app.id)
})

test('a start has its route before its outcome; while the proxy is unreachable it succeeds, and gets its route later', async t => {
  t.timeout(120_000)
  const { db, running, lanes, run } = await kit
  const app = await running()
  const command = async (kind: 'stop' | 'start') => {
    const request = { targetId: app.id, kind, ownerId: app.owner_id, actor: app.owner_id } as const
    const { id } = await operations.enqueueOperation(db, request)
    await lanes.wake(app.id, app.owner_id)
    t.like(await run.ended(id), { state: 'success', code: null }, kind)
  }
  const isStopped = async () => {
    await command('stop')
    await comesTrue(async () => (await portIn(app.id)) === undefined)
  }
  await isStopped()
  firstRouted.delete(app.id)
  await command('start')
  t.is(firstRouted.get(app.id), 'running')
  await isStopped()
  away.add(app.id)
  await command('start')
  t.like(await loadApp(db, app.id), { status: 'running', host_port: portOf(app.id, 1) })
  t.is(await portIn(app.id), undefined)
  away.delete(app.id)
  await comesTrue(async () => (await portIn(app.id)) === portOf(app.id, 1))
})
