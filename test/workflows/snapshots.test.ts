import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { configOf } from '../../db/apps/app-configuration.ts'
import { type AppRow, loadApp } from '../../db/apps/apps.ts'
import { transaction } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import { cancelOperation } from '../../db/operations/operator-acts.ts'
import { laneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { keepHistory } from '../kit/platform/histories.ts'
import { deployKit } from './deploy-kit.ts'
import { portOf } from './ports.ts'

const kit = deployKit()

test('start, stop and restart are answered while a snapshot is taken', async t => {
  const { running, snapshot, behave, client, run } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'takeSnapshot 1' })
  const { end, row } = await snapshot(app)
  await plan.reached
  for (const verb of ['stop', 'start', 'restart'] as const) t.is((await run.command(app, verb)).state, 'success', verb)
  t.is((await row()).state, 'making')
  plan.open()
  t.like(await end(), { state: 'success', code: null })
  t.like(await row(), { state: 'good', size: '10' })
  await keepHistory(client, 'snapshot', app.id)
})

test('equal files are stored once: the archive that was just read back, while the previous one is left to the sweep', async t => {
  const { running, snapshot, db } = await kit
  const app = await running()
  const first = await snapshot(app)
  await first.end()
  const before = (await first.row()).segment_id
  const second = await snapshot(app)
  await second.end()
  const [one, two] = [await first.row(), await second.row()]
  t.is(two.segment_id, one.segment_id)
  t.is((await db('segments').where({ id: one.segment_id }).first()).refs, 2)
  t.not(two.segment_id, before)
  t.is((await db('segments').where({ id: before }).first()).refs, 0)
})

test('a failed snapshot records the reason, and the next one is taken', async t => {
  const { running, snapshot, behave, client } = await kit
  const app = await running()
  behave(app, { copy: 'fails' })
  const failing = await snapshot(app)
  t.like(await failing.end(), { state: 'error', code: 'ACTION_FAILED', message: 'A name is too long.' })
  t.like(await failing.row(), { state: 'failed', segment_id: null })
  behave(app, {})
  t.is((await (await snapshot(app)).end()).state, 'success')
  await keepHistory(client, 'snapshot-failed', app.id)
})

test('a snapshot is cancelled once its copy has ended, and a concurrent deploy continues', async t => {
  const { running, snapshot, push, behave, client, db, lanes } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'takeSnapshot 1', confirmMs: 500 })
  const { end, row, operationId } = await snapshot(app)
  await plan.reached
  const deploy = await push(app)
  await sleep(300)
  t.is(await transaction(db, trx => cancelOperation(trx, { operationId, actor: 'operator:ana' })), 'requested')
  await lanes.wake(app.id, app.owner_id)
  const ended = await end()
  t.like(ended, { state: 'cancelled', code: 'DEPLOY_CANCELLED', message: 'Cancelled by an operator.' })
  t.true(plan.confirmedAt > 0 && ended.finished_at!.getTime() >= plan.confirmedAt)
  t.is((await row()).state, 'failed')
  t.is((await deploy.end()).state, 'success')
  await keepHistory(client, 'snapshot-cancelled', app.id)
})

test('a deletion ends the copy first', async t => {
  const { running, snapshot, behave, client, db, run } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'takeSnapshot 1', confirmMs: 300 })
  const { end } = await snapshot(app)
  await plan.reached
  t.is((await run.command(app, 'delete')).state, 'success')
  t.is((await end()).state, 'cancelled')
  t.deepEqual(await db('snapshots').where({ target_id: app.id }).pluck('state'), ['failed'])
  await keepHistory(client, 'snapshot-deleted', app.id)
})

test('a deploy builds during a snapshot, and changes versions only after it', async t => {
  const { running, snapshot, push, behave, steps, client } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'takeSnapshot 1' })
  const { end } = await snapshot(app)
  await plan.reached
  const deploy = await push(app)
  t.deepEqual(await steps(app, 2), ['takeSnapshot 1', 'prepareRelease 2'])
  await sleep(500)
  t.is((await steps(app, 2)).length, 2, 'nothing is placed while files are copied')
  plan.open()
  t.is((await end()).state, 'success')
  t.is((await deploy.end()).state, 'success')
  await keepHistory(client, 'snapshot-beside-deploy', app.id)
})

test('a snapshot that waits for others on its host holds up no deploy of its own application', async t => {
  const { running, snapshot, push, behave, db } = await kit
  const copying: Awaited<ReturnType<typeof snapshot>>[] = []
  const plans: ReturnType<typeof behave>[] = []
  t.teardown(() => plans.forEach(plan => void plan.open()))
  for (const other of [await running(), await running()]) {
    const plan = behave(other, { pauseAt: 'takeSnapshot 1' })
    plans.push(plan)
    copying.push(await snapshot(other))
    await plan.reached
  }
  const app = await running()
  const waits = await snapshot(app)
  const step = async () => (await operations.findOperation(db, waits.operationId))?.step
  await comesTrue(async () => /waiting for its host/.test((await step()) ?? ''))
  t.is((await (await push(app)).end()).state, 'success')
  t.regex((await step()) ?? '', /waiting for its host/)
  for (const plan of plans) plan.open()
  for (const { end } of [...copying, waits]) t.is((await end()).state, 'success')
})

test('Temporal forgets a snapshot: it is taken from the beginning, once', async t => {
  const { running, snapshot, behave, client, db } = await kit
  const app = await running()
  const plan = behave(app, { pauseAt: 'takeSnapshot 1' })
  const { end, operationId } = await snapshot(app)
  await plan.reached
  await client.workflow.getHandle(laneId(app.id)).terminate('forgotten')
  plan.open()
  await db('operations')
    .where({ id: operationId })
    .update({ started_at: new Date(Date.now() - 60_000) })
  t.is((await end()).state, 'success')
  const [row, ...others] = await db('snapshots').where({ target_id: app.id })
  t.is(row.state, 'good')
  t.deepEqual(others, [])
})

/** An application that runs, and a good snapshot of it. */
async function kept(changes = {}) {
  const base = await kit
  const app = await base.running(changes)
  const { end, row } = await base.snapshot(app)
  await end()
  const copied = (await base.steps(app, 1)).length
  return {
    ...base,
    app,
    good: await row(),
    since: async (count: number) => (await base.steps(app, copied + count)).slice(copied),
  }
}

/** The application had another name when the snapshot was taken. */
async function calledThen(version: string, app: AppRow) {
  const config = JSON.stringify({ ...configOf(app), displayName: 'then' })
  await (await kit).db('snapshots').where({ id: version }).update({ config })
}

test('a restore is prepared alongside the serving version, and changes versions as a deploy does', async t => {
  const { app, good, restore, since, client, db } = await kept()
  await calledThen(good.id, app)
  const { end, deployment } = await restore(app, good)
  t.like(await end(), { state: 'success', code: null })
  t.like(await deployment(), { state: 'success', source: 'snapshot', trigger: 'restore', snapshot_id: good.id })
  t.like(await loadApp(db, app.id), { release: 2, host_port: portOf(app.id, 2), status: 'running', name: 'then' })
  t.deepEqual(await since(7), [
    ...['prepareRelease 2', 'placeFiles 2', 'startRelease 2', 'passHealthGate 2'],
    ...['stopApp 1', 'removeContainer 1', 'settleFiles 2'],
  ])
  await keepHistory(client, 'restore', app.id)
})

test('a stopped application is restored and not started', async t => {
  const { app, good, restore, since, client, db, run } = await kept()
  t.is((await run.command(app, 'stop')).state, 'success')
  const { end, deployment } = await restore(app, good)
  t.is((await end()).state, 'success')
  t.is((await deployment()).state, 'success')
  t.like(await loadApp(db, app.id), { release: 2, status: 'exited', desired_state: 'stopped', host_port: null })
  const steps = await since(6)
  t.false(steps.includes('startRelease 2'))
  t.true(steps.includes('settleFiles 2'))
  await keepHistory(client, 'restore-stopped', app.id)
})

test('a restore that fails its gate leaves files, configuration, container and route as they were', async t => {
  const { app, good, restore, since, behave, client, db, edge } = await kept()
  await calledThen(good.id, app)
  behave(app, { unhealthy: 2 })
  const { end, deployment } = await restore(app, good)
  t.like(await end(), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.is((await deployment()).state, 'error')
  t.like(await loadApp(db, app.id), { release: 1, host_port: portOf(app.id, 1), status: 'running', name: 'shop' })
  t.is((await edge.listRoutes()).find(route => route.appId === app.id)?.port, portOf(app.id, 1))
  t.deepEqual((await since(7)).slice(4), ['removeContainer 2', 'restoreFiles 2', 'discardRelease 2'])
  await keepHistory(client, 'restore-failed', app.id)
})

test('a cancelled restore is recorded once its unpacking has ended', async t => {
  const { app, good, restore, behave, client, db, lanes } = await kept()
  const plan = behave(app, { pauseAt: 'prepareRelease 2', confirmMs: 300 })
  const { end, operationId } = await restore(app, good)
  await plan.reached
  await transaction(db, trx => cancelOperation(trx, { operationId, actor: 'operator:ana' }))
  await lanes.wake(app.id, app.owner_id)
  t.like(await end(), { state: 'cancelled', code: 'DEPLOY_CANCELLED' })
  t.like(await loadApp(db, app.id), { release: 1, status: 'running' })
  await keepHistory(client, 'restore-cancelled', app.id)
})

test('a push during a restore runs after it', async t => {
  const { app, good, restore, push, behave, client, db, since } = await kept()
  const plan = behave(app, { pauseAt: 'prepareRelease 2' })
  const restored = await restore(app, good)
  await plan.reached
  const pushed = await push(app)
  await sleep(300)
  t.deepEqual(await since(1), ['prepareRelease 2'])
  plan.open()
  t.is((await restored.end()).state, 'success')
  t.is((await pushed.end()).state, 'success')
  t.is((await loadApp(db, app.id))?.release, 3)
  await keepHistory(client, 'restore-before-push', app.id)
})

for (const step of ['prepareRelease', 'placeFiles', 'passHealthGate'])
  test(`Temporal forgets a restore in ${step}: it is driven to its end from the beginning, once`, async t => {
    const { app, good, restore, behave, client, db, events } = await kept({ subdomain: null })
    const plan = behave(app, { pauseAt: `${step} 2` })
    const { end, deployment, operationId } = await restore(app, good)
    await plan.reached
    await client.workflow.getHandle(laneId(app.id)).terminate('forgotten')
    plan.open()
    await db('operations')
      .where({ id: operationId })
      .update({ started_at: new Date(Date.now() - 60_000) })
    t.is((await end()).state, 'success')
    t.like(await loadApp(db, app.id), { release: 2, status: 'running' })
    t.deepEqual(await events(await deployment()), ['pending', 'clone', 'commit', 'restarting', 'success'])
  })
