import { once } from 'node:events'
import test from 'ava'
import { HostUnreachable } from '../../activities/containers/port.ts'
import { loadApp } from '../../db/apps/apps.ts'
import * as operations from '../../db/operations/operations.ts'
import { commandSeconds } from '../../policy/apps/command-times.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { laneKit } from './lane-kit.ts'

/** Delays of a host before it has stopped an application. */
const stops = new Map<string, Promise<void>>()
/** What a restart meets once it has stopped an application. */
const halfway = new Map<string, () => Promise<void>>()
/** Applications that the engine of their host no longer serves. */
const engineless = new Set<string>()
/** What a deletion meets before the containers are removed. */
const removals = new Map<string, () => Promise<void>>()
/** Applications whose files the host never removes. */
const filesStay = new Set<string>()

const kit = laneKit({
  stopped: async ({ appId }) => halfway.get(appId)?.(),
  trouble: ({ appId }) => (engineless.has(appId) ? 'the engine is away' : null),
  before: {
    stopApp: async ({ appId }) => stops.get(appId),
    removeContainers: async ({ appId }) => removals.get(appId)?.(),
    async removeFiles({ appId }, signal) {
      if (filesStay.has(appId) && !signal.aborted) await once(signal, 'abort')
    },
  },
})

async function commands() {
  const base = await kit
  const { db, make, run, lanes, edge, client } = base
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await lanes.wake(app.id, user.id)
  await run.ended(operationId)
  /** A command whose caller is answered after `seconds`. */
  async function ask(kind: operations.OperationKind, seconds: number) {
    const request = { targetId: app.id, kind, ownerId: user.id, actor: user.id, endWithinMs: seconds * 1000 }
    const { id } = await operations.enqueueOperation(db, request)
    await lanes.wake(app.id, user.id)
    return id
  }
  const routes = async () => (await edge.listRoutes()).filter(({ appId }) => appId === app.id).length
  /** Max seconds of an attempt and of all attempts of the last step that the lane has sent to a host. */
  async function limits() {
    const { events } = await client.workflow.getHandle(laneId(app.id)).fetchHistory()
    const sent = events?.findLast(event => event.activityTaskScheduledEventAttributes)
    const { startToCloseTimeout, scheduleToCloseTimeout } = sent!.activityTaskScheduledEventAttributes!
    return { attempt: Number(startToCloseTimeout?.seconds), all: Number(scheduleToCloseTimeout?.seconds) }
  }
  return { ...base, app, ask, routes, limits }
}

test('a restart starts nothing once its caller has been answered', async t => {
  const { app, ask, db, run, steps, hostHas, isBusy } = await commands()
  const before = steps(app.id).length
  let open = () => {}
  stops.set(app.id, new Promise(resolve => (open = resolve)))
  const id = await ask('restart', 16)
  await comesTrue(() => isBusy(app.id))
  t.is((await loadApp(db, app.id))?.status, 'restarting')
  t.like(await run.ended(id), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running' }, 'nothing was stopped')
  hostHas(app.id).end(1)
  stops.delete(app.id)
  open()
  await comesTrue(() => !isBusy(app.id))
  t.deepEqual(steps(app.id).slice(before), ['stopApp 1'])
  t.false(hostHas(app.id).runs(1), 'it comes late, and starts nothing')
  t.is((await run.command(app, 'restart')).state, 'success', 'another one does')
  t.true(hostHas(app.id).runs(1))
})

test('a restart that takes too long after its stop leaves the application shown as stopped, without a route', async t => {
  const { app, ask, db, run, steps, routes, hostHas, isBusy } = await commands()
  const before = steps(app.id).length
  t.is(await routes(), 1)
  let open = () => {}
  halfway.set(app.id, () => new Promise(resolve => (open = resolve)))
  t.like(await run.ended(await ask('restart', 16)), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'running', exit_code: 143 })
  t.is(await routes(), 0)
  halfway.delete(app.id)
  open()
  await comesTrue(() => !isBusy(app.id))
  t.false(hostHas(app.id).runs(1), 'what comes late starts nothing')
  t.deepEqual(steps(app.id).slice(before), ['stopApp 1'])
})

test('a deletion that ends after its caller was answered deletes nothing', async t => {
  const { app, db, run, lanes, hostHas } = await commands()
  const request = { targetId: app.id, kind: 'delete', ownerId: app.owner_id, actor: app.owner_id } as const
  removals.set(app.id, async () => {
    const mine = db('operations').where({ target_id: app.id, kind: 'delete', state: 'running' })
    await mine.update({ end_before: new Date(Date.now() - 1000) })
  })
  const { id } = await operations.enqueueDeletion(db, request)
  await lanes.wake(app.id, app.owner_id)
  t.like(await run.ended(id), { state: 'error', code: 'DELETE_ERROR' })
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running' })
  removals.delete(app.id)
  const again = await operations.enqueueDeletion(db, request)
  await lanes.wake(app.id, app.owner_id)
  t.is((await run.ended(again.id)).state, 'success')
  t.is(await loadApp(db, app.id), undefined)
  t.false(hostHas(app.id).runs(1))
})

test('a restart of which a later attempt reaches nothing still tells how the first one ended the application', async t => {
  const { app, ask, db, run, steps, limits } = await commands()
  const before = steps(app.id).length
  halfway.set(app.id, async () => {
    engineless.add(app.id)
    throw new HostUnreachable('The engine was stopped.')
  })
  t.like(await run.ended(await ask('restart', 95)), { state: 'error', code: 'ACTION_FAILED' })
  t.deepEqual(steps(app.id).slice(before), ['stopApp 1', 'stopApp 1', 'stopApp 1'])
  t.deepEqual(
    await limits(),
    { attempt: commandSeconds.step, all: commandSeconds.step },
    'one attempt may do all of it',
  )
  t.like(await loadApp(db, app.id), { status: 'exited', desired_state: 'running', exit_code: 143 })
  halfway.delete(app.id)
  engineless.delete(app.id)
  t.is((await run.command(app, 'restart')).state, 'success')
})

test('a command starts nothing after its deadline', async t => {
  const { app, ask, db, run, steps } = await commands()
  t.is((await run.ended(await ask('restart', 95))).state, 'success')
  const running = steps(app.id).length
  t.like(await run.ended(await ask('restart', 1)), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await run.ended(await ask('stop', 1)), { state: 'error', code: 'ACTION_FAILED' })
  t.deepEqual(steps(app.id).slice(running), [])
  t.like(await loadApp(db, app.id), { status: 'running', desired_state: 'running' }, 'nothing ended it')
  t.is((await run.ended(await ask('stop', 95))).state, 'success')
  const before = steps(app.id).length
  t.like(await run.ended(await ask('start', 1)), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await run.ended(await ask('delete', 1)), { state: 'error', code: 'ACTION_FAILED' })
  t.deepEqual(steps(app.id).slice(before), [])
  t.like(await loadApp(db, app.id), { status: 'exited' }, 'a deletion that was refused deletes nothing')
  t.is((await run.ended(await ask('start', 95))).state, 'success')
})

test('a deletion succeeds once it is final, whatever happens to the files', async t => {
  const { app, ask, db, run, steps } = await commands()
  filesStay.add(app.id)
  t.is((await run.ended(await ask('delete', 95))).state, 'success')
  t.is(await loadApp(db, app.id), undefined)
  await comesTrue(() => steps(app.id).includes('removeFiles 1'))
})

test('a deletion that was final when its lane ended succeeds', async t => {
  const { app, ask, db, run, lanes } = await commands()
  const id = await ask('delete', 95)
  await run.ended(id)
  // A worker of an older version wrote both one after the other, and was stopped in between.
  await db('operations').where({ id }).update({ state: 'running', finished_at: null, claim: null })
  await lanes.wake(app.id, app.owner_id)
  t.like(await run.ended(id), { state: 'success', code: null })
})
