import { once } from 'node:events'
import test from 'ava'
import { loadApp } from '../../db/apps/apps.ts'
import * as operations from '../../db/operations/operations.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { laneKit } from './lane-kit.ts'

/** Delays of a host before it has stopped an application. */
const stops = new Map<string, Promise<void>>()
/** Applications whose files the host never removes. */
const filesStay = new Set<string>()

const kit = laneKit({
  before: {
    stopApp: async ({ appId }) => stops.get(appId),
    async removeFiles({ appId }, signal) {
      if (filesStay.has(appId) && !signal.aborted) await once(signal, 'abort')
    },
  },
})

async function commands() {
  const base = await kit
  const { db, make, run, lanes } = base
  const user = await make.user()
  const { app, operationId } = await make.app(user.id)
  await lanes.wake(app.id, user.id)
  await run.ended(operationId)
  /** A command whose caller is answered after `seconds`. */
  async function ask(kind: operations.OperationKind, seconds: number) {
    const wish = { targetId: app.id, kind, ownerId: user.id, actor: user.id, endWithinMs: seconds * 1000 }
    const { id } = await operations.enqueueOperation(db, wish)
    await lanes.wake(app.id, user.id)
    return id
  }
  return { ...base, app, ask }
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
