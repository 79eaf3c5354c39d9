import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { activityInfo } from '@temporalio/activity'
import test from 'ava'
import { pino } from 'pino'
import type { Release } from '../../activities/releases/release.ts'
import { usedMemoryMb } from '../../db/accounts/account-reservations.ts'
import { loadApp } from '../../db/apps/apps.ts'
import { findDeploymentByOperation } from '../../db/deploys/deployments.ts'
import * as operations from '../../db/operations/operations.ts'
import { LaneRelay } from '../../workers/loops/relay.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import { laneId } from '../../workflows/ids.ts'
import type { Trouble } from '../contracts/host-troubles.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepHistory } from '../kit/platform/histories.ts'
import { laneKit } from './lane-kit.ts'
import { portOf } from './ports.ts'

/** Behaviour of one application at the scripted host, chosen by its test. */
const behaviour = new Map<string, string>()
const does = ({ appId }: Pick<Release, 'appId'>, what: string) => behaviour.get(appId) === what
const troubles: Record<string, Trouble> = {
  'needs install': 'the install step fails',
  crashes: 'the program ends',
  'never answers': 'the program is deaf',
  'cannot be started': 'no image',
  'is not reached': 'the engine is away',
}
/** State of an application's row at the first attempt of each of these steps. */
const shown = new Map<string, string[]>()
async function note({ appId }: Release, step: string) {
  if (activityInfo().attempt > 1) return
  const { db } = await kit
  const row = await loadApp(db, appId)
  shown.set(appId, [...(shown.get(appId) ?? []), `${step}: ${row?.status}, ${row?.desired_state}`])
}
/** Lets a host that is blocked on an application continue. */
const wakes = new Map<string, () => void>()

const kit = laneKit({
  before: {
    async prepareRelease(release, signal) {
      if (does(release, 'hangs') && !signal.aborted) await once(signal, 'abort')
    },
    async passHealthGate(release) {
      await note(release, 'gate')
      if (!does(release, 'is removed')) return
      behaviour.set(release.appId, 'is there')
      ;(await kit).hostHas(release.appId).removeContainer(release.number)
    },
    removeContainers: release => note(release, 'removal'),
    async startApp(release) {
      await note(release, 'start')
      if (does(release, 'takes a while')) await sleep(30)
    },
    async stopApp(release) {
      if (does(release, 'is restarted') || does(release, 'only stops')) await note(release, 'stop')
      if (does(release, 'takes a while')) await sleep(30)
    },
  },
  after: {
    async startApp(release) {
      if (!does(release, 'stands still')) return
      behaviour.set(release.appId, 'goes on elsewhere')
      await new Promise<void>(resolve => {
        wakes.set(release.appId, resolve)
      })
    },
  },
  trouble(release, step) {
    if (does(release, 'cannot be removed')) return step === 'removeContainers' ? 'the engine is away' : null
    return troubles[behaviour.get(release.appId) ?? '']
  },
  installs: release => does(release, 'needs install'),
  onlyStops: release => does(release, 'only stops'),
  onlyPlaces: release => does(release, 'only places'),
})

/** An application that was created and runs. */
/** A creation up to its end; `how` its program or its host behaves. */
async function creation(how?: Parameters<typeof behaviour.set>[1]) {
  const { make, run, lanes } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  if (how) behaviour.set(app.id, how)
  await lanes.wake(app.id, user.id)
  return { user, app, ended: await run.ended(operationId) }
}

test('an uploaded application runs, has its address, and its deployment succeeded', async t => {
  const { db, make, run, lanes, edge, client, steps } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await lanes.wake(app.id, user.id)
  t.is((await run.ended(operationId)).state, 'success')
  // Where nothing has to be installed, the step that brings the files places and starts them.
  t.deepEqual(steps(app.id), ['prepareRelease 1', 'passHealthGate 1'])
  const row = await loadApp(db, app.id)
  t.is(row?.status, 'running')
  t.is(row?.host_port, portOf(app.id, 1))
  t.is(row?.release, 1)
  t.is((await findDeploymentByOperation(db, operationId))?.state, 'success')
  const routes = await edge.listRoutes()
  t.deepEqual(
    routes.filter(route => route.appId === app.id).map(route => route.port),
    [portOf(app.id, 1)],
  )
  await keepHistory(client, 'create', app.id)
})

test('a failed install releases memory and name and leaves only its reason', async t => {
  const { db, make, run, lanes, calls, client } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  behaviour.set(app.id, 'needs install')
  await lanes.wake(app.id, user.id)
  const end = await run.ended(operationId)
  t.is(end.state, 'error')
  t.is(end.code, 'BUILD_FAILED')
  t.regex(end.message ?? '', /: no such package$/, 'with the last lines of its output')
  t.is(await loadApp(db, app.id), undefined)
  t.is(await usedMemoryMb(db, user.id), 0)
  const deployment = await findDeploymentByOperation(db, operationId)
  t.is(deployment?.state, 'error')
  t.is(deployment?.code, 'BUILD_FAILED')
  t.is(deployment?.segment_id, null)
  t.true(calls.includes('removeFiles'))
  await keepHistory(client, 'create-failed', app.id)
})

test('an application whose program does not stay up remains, stopped, with the exit', async t => {
  const { db, edge, client } = await kit
  const { app, ended } = await creation('crashes')
  t.is(ended.code, 'HEALTH_CHECK_FAILED')
  const row = await loadApp(db, app.id)
  t.is(row?.status, 'exited')
  t.is(row?.exit_oom, true)
  t.is(row?.exit_code, 137)
  t.is((await edge.listRoutes()).filter(route => route.appId === app.id).length, 0)
  await keepHistory(client, 'create-stopped', app.id)
})

test('a web application that never answers is stopped, and stays like one whose program has ended', async t => {
  const { db, hostHas, client } = await kit
  const { app, ended } = await creation('never answers')
  t.is(ended.code, 'HEALTH_CHECK_FAILED')
  t.like(await loadApp(db, app.id), { status: 'exited', exit_code: 143, exit_oom: false })
  t.deepEqual(hostHas(app.id).standing(), { containers: { 1: false }, files: 1, disk: true, busy: 0 })
  await keepHistory(client, 'create-unanswered', app.id)
})

test('a creation whose container is removed during its gate creates it again', async t => {
  const { db, steps, client } = await kit
  const { app, ended } = await creation('is removed')
  t.is(ended.state, 'success')
  t.like(await loadApp(db, app.id), { status: 'running', host_port: portOf(app.id, 1, 1) })
  const tried = steps(app.id).filter(step => /startRelease|passHealthGate/.test(step))
  t.deepEqual(tried, ['passHealthGate 1', 'startRelease 1', 'passHealthGate 1'])
  await keepHistory(client, 'create-removed', app.id)
})

test('a creation on a host of an older version has a step for the start', async t => {
  const { steps, client } = await kit
  const { app, ended } = await creation('only places')
  t.is(ended.state, 'success')
  t.deepEqual(steps(app.id), ['prepareRelease 1', 'startRelease 1', 'passHealthGate 1'])
  t.deepEqual(shown.get(app.id), ['gate: starting, running'])
  await keepHistory(client, 'create-older-host', app.id)
})

test('a creation whose container cannot be started leaves nothing at its host', async t => {
  const { db, hostHas, client } = await kit
  const { app, ended } = await creation('cannot be started')
  t.is(ended.code, 'DEPLOY_FAILED')
  t.is(await loadApp(db, app.id), undefined)
  t.deepEqual(hostHas(app.id).standing(), { containers: {}, files: null, disk: false, busy: 0 })
  await keepHistory(client, 'create-not-started', app.id)
})

test('a deletion cancels the creation in progress and succeeds', async t => {
  const { db, make, run, lanes, client } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  behaviour.set(app.id, 'hangs')
  await lanes.wake(app.id, user.id)
  await comesTrue(async () => (await operations.findOperation(db, operationId))?.state === 'running')
  // Otherwise the creation would hang for ever.
  const deletion = await run.command({ id: app.id, owner_id: user.id }, 'delete')
  t.is(deletion.state, 'success')
  t.is((await run.ended(operationId)).state, 'cancelled')
  t.is(await loadApp(db, app.id), undefined)
  await keepHistory(client, 'create-cancelled', app.id)
})

test('stop, start and restart change the desired and the shown state; a deletion is final', async t => {
  const { db, run, edge, client, hostHas } = await kit
  /** The route keeper may be between setting a route and noticing that it is outdated. */
  const routeGoes = async (appId: string) => {
    await comesTrue(async () => !(await edge.listRoutes()).some(route => route.appId === appId))
  }
  const { app } = await creation()
  t.is((await run.command(app, 'stop')).state, 'success')
  t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'stopped', host_port: null, exit_code: 143 })
  await routeGoes(app.id)
  t.is((await run.command(app, 'start')).state, 'success')
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running', host_port: portOf(app.id, 1) })
  t.is((await run.command(app, 'restart')).state, 'success')
  t.like(await loadApp(db, app.id), { status: 'running' })
  hostHas(app.id).end(1)
  t.is((await run.command(app, 'stop')).code, 'CONTAINER_ALREADY_STOPPED')
  t.is((await run.command(app, 'delete')).state, 'success')
  t.is(await loadApp(db, app.id), undefined)
  await routeGoes(app.id)
  t.is((await run.command(app, 'start')).code, 'APP_NOT_FOUND')
  await keepHistory(client, 'commands', app.id)
})

test('a restart is one step, and on a host of an older version a stop and a start', async t => {
  const { db, run, client, steps } = await kit
  const { app } = await creation()
  behaviour.set(app.id, 'is restarted')
  const since = steps(app.id).length
  t.is((await run.command(app, 'restart')).state, 'success')
  t.deepEqual(steps(app.id).slice(since), ['stopApp 1'])
  const { typedSearchAttributes: searched } = await client.workflow.getHandle(laneId(app.id)).describe()
  t.is(searched.get(searchAttributes.operationKind), 'restart', 'after the creation')
  behaviour.set(app.id, 'only stops')
  t.is((await run.command(app, 'restart')).state, 'success')
  t.deepEqual(steps(app.id).slice(since + 1), ['stopApp 1', 'startApp 1'])
  t.like(await loadApp(db, app.id), { status: 'running', host_port: portOf(app.id, 1) })
  const during = ['stop', 'stop', 'start'].map(step => `${step}: restarting, running`)
  t.deepEqual(shown.get(app.id)?.slice(-3), during)
  await keepHistory(client, 'restart-older-host', app.id)
})

test('a restart that stops nothing leaves what ran shown as running, and what had ended as exited', async t => {
  const { db, run, client } = await kit
  const { app } = await creation()
  behaviour.set(app.id, 'is not reached')
  t.like(await run.command(app, 'restart'), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running', host_port: portOf(app.id, 1) })
  behaviour.delete(app.id)
  t.is((await run.command(app, 'stop')).state, 'success')
  behaviour.set(app.id, 'is not reached')
  t.like(await run.command(app, 'restart'), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'stopped' })
  await keepHistory(client, 'restart-nothing-stopped', app.id)
})

test('a container that a failed start has left is adopted; one that is known to run is not started', async t => {
  const { db, run, hostHas } = await kit
  const { app } = await creation()
  t.is((await run.command(app, 'stop')).state, 'success')
  hostHas(app.id).again(1)
  t.is((await run.command(app, 'start')).state, 'success')
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running' })
  t.is((await run.command(app, 'start')).code, 'CONTAINER_ALREADY_STARTED')
})

test('a start and a deletion are shown while they run; a failed one restores the shown and desired state', async t => {
  const { db, make, run, lanes } = await kit
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  // An automatic snapshot becomes due meanwhile.
  const state = async () => ({ ...(await loadApp(db, app.id)), snapshot_due_at: undefined })
  const since = () => shown.get(app.id)?.splice(0)
  const remove = async () => {
    const request = { targetId: app.id, kind: 'delete', ownerId: user.id, actor: user.id } as const
    const { id } = await operations.enqueueDeletion(db, request)
    t.is((await loadApp(db, app.id))?.desired_state, 'deleted', 'from its first moment')
    await lanes.wake(app.id, user.id)
    return run.ended(id)
  }
  await lanes.wake(app.id, user.id)
  await run.ended(operationId)
  t.deepEqual(since(), ['gate: starting, running'])

  behaviour.set(app.id, 'cannot be removed')
  const running = await state()
  t.is((await remove()).code, 'ACTION_FAILED')
  t.deepEqual(since(), ['removal: deleting, deleted'])
  t.deepEqual(await state(), running)

  await run.command(app, 'stop')
  const stopped = await state()
  t.is((await remove()).code, 'ACTION_FAILED')
  t.deepEqual(await state(), stopped)

  behaviour.set(app.id, 'cannot be started')
  since()
  t.is((await run.command(app, 'start')).code, 'DEPLOY_FAILED')
  t.deepEqual(since(), ['start: starting, stopped'])
  t.deepEqual(await state(), stopped)

  behaviour.delete(app.id)
  t.is((await run.command(app, 'start')).state, 'success')
  since()
  t.is((await run.command(app, 'start')).code, 'CONTAINER_ALREADY_STARTED')
  t.deepEqual(since(), ['start: running, running'], 'what runs is not shown as if it did not')
  t.is((await remove()).state, 'success')
  t.is(await loadApp(db, app.id), undefined)
})

test('operations of one application never overlap', async t => {
  const { db, run, lanes, mostAtOnce } = await kit
  const { app, user } = await creation()
  behaviour.set(app.id, 'takes a while')
  const kinds = ['restart', 'stop', 'start', 'restart', 'restart', 'stop', 'start', 'restart'] as const
  const ids: string[] = []
  for (const kind of kinds) {
    ids.push((await operations.enqueueOperation(db, { targetId: app.id, kind, ownerId: user.id, actor: user.id })).id)
    await lanes.wake(app.id, user.id)
  }
  const ends = await Promise.all(ids.map(id => run.ended(id)))
  t.deepEqual(
    ends.map(end => end.state),
    Array(kinds.length).fill('success'),
  )
  t.is(mostAtOnce(app.id), 1, 'starts, stops and routes of one follow those of the other')
  const { rows } = await db.raw(
    `select count(*)::integer as overlaps from operations a join operations b on a.target_id = b.target_id and a.id < b.id
      where a.target_id = ? and a.started_at < b.finished_at and b.started_at < a.finished_at`,
    [app.id],
  )
  t.deepEqual(rows, [{ overlaps: 0 }], 'one is claimed after the end of the one before it')
})

test('of two lanes of one application, as with two Temporals, the one that lost an operation neither ends nor undoes it', async t => {
  const { db, run, lanes, client, queuePrefix } = await kit
  const { app, user } = await creation()
  t.is((await run.command(app, 'stop')).state, 'success')
  behaviour.set(app.id, 'stands still')
  // A round of the worker would move the next snapshot while the two lanes run.
  await db('apps')
    .where({ id: app.id })
    .update({ snapshot_due_at: new Date(Date.now() + 86_400_000) })
  const ask = (kind: operations.OperationKind) =>
    operations.enqueueOperation(db, { targetId: app.id, kind, ownerId: user.id, actor: user.id })
  const start = await ask('start')
  await lanes.wake(app.id, user.id)
  await comesTrue(() => wakes.has(app.id))
  const first = client.workflow.getHandle(`app/${app.id}`)
  const input = { appId: app.id, idleSeconds: 1, queuePrefix }
  const another = (n: number) =>
    client.workflow.execute('appLane', {
      workflowId: `${n}/${app.id}`,
      taskQueue: `${queuePrefix}platform`,
      args: [input],
    })
  await another(1)
  t.like(await operations.findOperation(db, start.id), { state: 'success' })
  t.like(await loadApp(db, app.id), { status: 'running', container_id: 'c1' })
  const stop = await ask('stop')
  await another(2)
  t.like(await operations.findOperation(db, stop.id), { state: 'success' })
  const before = await loadApp(db, app.id)
  t.like(before, { status: 'exited', desired_state: 'stopped' })
  wakes.get(app.id)?.()
  await first.result()
  t.deepEqual(await loadApp(db, app.id), before)
  t.like(await operations.findOperation(db, start.id), { state: 'success', code: null })
})

test('a host that does not answer fails a command within its deadline, and nothing is half done', async t => {
  const { db, run, client } = await kit
  const { app } = await creation()
  await db('hosts').insert({ id: 'gone', address: '127.0.0.1', memory_mb: 0, disk_mb: 0 })
  await db('apps').where({ id: app.id }).update({ host_id: 'gone' })
  const end = await run.command(app, 'stop')
  t.is(end.state, 'error')
  t.is(end.code, 'ACTION_FAILED')
  t.regex(end.message ?? '', /did not answer/)
  t.is((await loadApp(db, app.id))?.desired_state, 'running')
  await keepHistory(client, 'command-host-lost', app.id)
})

test('a lost wake-up is repaired, also for an operation that a lost Temporal had started', async t => {
  const { db, make, run, lanes, client } = await kit
  const user = await make.user()
  const queued = await make.app(user.id)
  const opened = await make.app(user.id)
  await db('operations')
    .where({ id: queued.operationId })
    .update({ created_at: new Date(Date.now() - 60_000) })
  await db('operations')
    .where({ id: opened.operationId })
    .update({ state: 'running', started_at: new Date(Date.now() - 60_000) })
  await new LaneRelay({ db, client, lanes, databaseLanes: lanes, log: pino({ level: 'silent' }) }).round()
  t.is((await run.ended(queued.operationId)).state, 'success')
  t.is((await run.ended(opened.operationId)).state, 'success')
})
