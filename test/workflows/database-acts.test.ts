import { once } from 'node:events'
import { cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { refusal } from '../../activities/failures.ts'
import { transaction } from '../../db/database.ts'
import { queueOperatorStart, queueUndo, queueUpgrade } from '../../db/databases/database-acts.ts'
import { listDrills, listFailingDrills, queueDrill } from '../../db/databases/database-drills.ts'
import { queueDatabaseSnapshot } from '../../db/databases/database-snapshots.ts'
import { loadDatabase } from '../../db/databases/databases.ts'
import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'
import * as operations from '../../db/operations/operations.ts'
import { ActRefused, cancelOperation } from '../../db/operations/operator-acts.ts'
import type { DatabaseStepName } from '../../policy/databases/database-steps.ts'
import { databaseLaneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { plansOfMemory } from '../kit/rows/rows.ts'
import { laneKit } from './lane-kit.ts'

/** Called at each step of a database, before its effect. */
const seen = new Map<string, (name: DatabaseStepName) => Promise<void> | void>()

const kit = laneKit(
  {},
  {},
  {
    async before({ databaseId }, name) {
      await seen.get(databaseId)?.(name)
    },
  },
)

const actor = 'operator:ana'

/** A database that runs, with one snapshot. */
async function scene() {
  const base = await kit
  const { db, make, databaseLanes, databases, run } = base
  await make.databaseHost('h1', { memoryMb: 1_000_000 })
  const user = await make.user()
  const { database, operationId } = await make.database(user.id)
  const { id } = database
  const ended = async (operation: string) => {
    await databaseLanes.wake(id, user.id)
    return run.ended(operation)
  }
  await ended(operationId)
  const queue = async (kind: DatabaseOperationKind, input: Record<string, unknown> = {}) => {
    const target = { targetType: 'database', targetId: id, ownerId: user.id } as const
    return (await operations.enqueueOperation(db, { ...target, kind, actor: user.id, input })).id
  }
  const snapshot = async () => {
    const plans = plansOfMemory(4096)
    const taken = await queueDatabaseSnapshot(db, { databaseId: id, ownerId: user.id, actor, origin: 'manual', plans })
    await ended(taken.operation_id)
    return taken
  }
  const act = async (request: typeof queueUndo) =>
    ended((await transaction(db, trx => request(trx, { databaseId: id, actor }))).id)
  return {
    ...base,
    id,
    user,
    ended,
    snapshot,
    queue,
    command: async (kind: DatabaseOperationKind, input?: Record<string, unknown>) => ended(await queue(kind, input)),
    restored: async () => {
      const restore = await ended(await queue('restore', { snapshotId: (await snapshot()).id }))
      if (restore.state !== 'success') throw new Error(`The restore ended with ${restore.code}: ${restore.message}`)
    },
    act,
    refused: (request: typeof queueUndo) =>
      transaction(db, trx => request(trx, { databaseId: id, actor })).then(
        () => 'queued',
        (error: unknown) => {
          if (error instanceof ActRefused) return error.message
          throw error
        },
      ),
    drill: async () =>
      (await transaction(db, trx =>
        queueDrill(trx, { databaseId: id, actor }, { diskMbPer256Mb: 10, evenBusy: true }),
      ))!,
    row: async () => (await loadDatabase(db, id))!,
    host: () => databases.at(id),
    fail: (
      name: DatabaseStepName,
      times = Number.POSITIVE_INFINITY,
      error: Error = refusal('ACTION_FAILED', `${name} fails`),
    ) => {
      let left = times
      seen.set(id, step => {
        if (step !== name || left-- <= 0) return
        throw error
      })
    },
    /** Steps since the last call. */
    steps: (() => {
      let from = 0
      return () => {
        const all = databases.steps(id)
        const since = all.slice(from)
        from = all.length
        return since
      }
    })(),
  }
}

test('an undo goes back to the volume before the restore, by one stop and one start, and an undo of it comes back', async t => {
  const { restored, act, row, host, steps, id } = await scene()
  await restored()
  const after = await row()
  t.like(after, { retired_generation: 1 })
  steps()
  t.is((await act(queueUndo)).state, 'success')
  t.deepEqual(steps(), ['stopDatabase', 'startDatabase', 'setDatabasePassword'])
  const undone = await row()
  t.like(undone, { generation: 1, retired_generation: after.generation, status: 'running', desired_state: 'running' })
  t.true(undone.retired_until! > new Date(Date.now() + 86_000_000))
  t.is(host().generation, 1)
  t.is((await act(queueUndo)).state, 'success')
  t.like(await row(), { generation: after.generation, retired_generation: 1 })
  t.is(host().generation, after.generation)
  await (await kit).keep('database-undo', id)
})

for (const name of ['startDatabase', 'setDatabasePassword'] as const)
  test(`an undo whose ${name} fails leaves what served serving`, async t => {
    const { restored, act, row, host, fail, id } = await scene()
    await restored()
    const before = await row()
    fail(name, 1)
    t.like(await act(queueUndo), { state: 'error', code: 'ACTION_FAILED', message: `${name} fails` })
    t.like(await row(), { generation: before.generation, retired_generation: 1, status: 'running' })
    t.like(host(), { generation: before.generation, runs: 512 })
    await (await kit).keep(`database-undo-failed-${name}`, id)
  })

test('an undo of a stopped database starts nothing; of one that crashed it does, and leaves nothing running if it fails', async t => {
  const { restored, act, row, host, db, id, command, steps, fail } = await scene()
  await restored()
  await command('stop')
  steps()
  t.is((await act(queueUndo)).state, 'success')
  t.deepEqual(steps(), [])
  t.like(await row(), { generation: 1, status: 'exited', desired_state: 'stopped' })
  await db('databases').where({ id }).update({ desired_state: 'running', restarts: 5 })
  const { generation } = await row()
  fail('setDatabasePassword', 1)
  t.is((await act(queueUndo)).state, 'error')
  t.like(await row(), { generation, status: 'exited' })
  t.is(host().runs, null)
  t.is((await act(queueUndo)).state, 'success')
  t.like(await row(), { retired_generation: generation, status: 'running' })
  await (await kit).keep('database-undo-stopped', id)
})

test('without a restore in the last day nothing is undone; nor after another restore took its place', async t => {
  const { restored, refused, row, db, id, ended, act } = await scene()
  t.regex(await refused(queueUndo), /There is nothing to undo/)
  await restored()
  await db('databases')
    .where({ id })
    .update({ retired_until: new Date(Date.now() - 1000) })
  t.regex(await refused(queueUndo), /There is nothing to undo/)
  await db('databases')
    .where({ id })
    .update({ retired_until: new Date(Date.now() + 60_000) })
  const undo = await transaction(db, trx => queueUndo(trx, { databaseId: id, actor }))
  await db('databases').where({ id }).update({ retired_generation: 99 })
  t.like(await ended(undo.id), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { retired_generation: 99, status: 'running' })
  await db('databases').where({ id }).update({ retired_generation: 1 })
  t.is((await act(queueUndo)).state, 'success')
})

test('a database keeps its image although the host has another one of that name, until it is upgraded', async t => {
  const { act, row, host, command, steps, id } = await scene()
  t.is((await row()).image_id, 'sha256:1')
  host().tagged = 'sha256:2'
  await command('stop')
  await command('start')
  t.is(host().image, 'sha256:1')
  steps()
  t.is((await act(queueUpgrade)).state, 'success')
  t.deepEqual(steps(), ['chooseImage', 'stopDatabase', 'startDatabase', 'setDatabasePassword'])
  t.like(await row(), { image_id: 'sha256:2', status: 'running' })
  t.is(host().image, 'sha256:2')
  t.is((await act(queueUpgrade)).state, 'success')
  t.deepEqual(steps(), ['chooseImage'], 'what has the image already is not stopped')
  await (await kit).keep('database-upgrade', id)
})

for (const name of ['startDatabase', 'setDatabasePassword'] as const)
  test(`an upgrade whose ${name} fails gives the engine its former image`, async t => {
    const { act, row, host, fail, id } = await scene()
    host().tagged = 'sha256:2'
    fail(name, 1)
    t.like(await act(queueUpgrade), { state: 'error', code: 'ACTION_FAILED', message: `${name} fails` })
    t.like(await row(), { image_id: 'sha256:1', status: 'running' })
    t.like(host(), { image: 'sha256:1', runs: 512 })
    await (await kit).keep(`database-upgrade-failed-${name}`, id)
  })

test('a stopped database stays stopped in an upgrade, and keeps its image when the new one does not serve', async t => {
  const { act, row, host, fail, command, steps, id } = await scene()
  await command('stop')
  host().tagged = 'sha256:2'
  fail('proveImage', 1)
  t.is((await act(queueUpgrade)).state, 'error')
  t.is((await row()).image_id, 'sha256:1')
  steps()
  t.is((await act(queueUpgrade)).state, 'success')
  t.deepEqual(steps(), ['chooseImage', 'proveImage'])
  t.like(await row(), { image_id: 'sha256:2', status: 'exited', desired_state: 'stopped' })
  await (await kit).keep('database-upgrade-stopped', id)
})

test('an operator starts a database that stays down, and its crashes no longer count', async t => {
  const { act, refused, row, host, db, id, command } = await scene()
  t.is(await refused(queueOperatorStart), 'The database is already running.')
  await command('stop')
  t.regex(await refused(queueOperatorStart), /stopped by its owner/)
  await db('databases').where({ id }).update({ desired_state: 'running', restarts: 5 })
  t.is((await act(queueOperatorStart)).state, 'success')
  t.like(await row(), { status: 'running', restarts: 0, restart_at: null })
  t.is(host().runs, 512)
})

test('a drill that finds the recorded contents is good evidence; one that does not fails, and says why', async t => {
  const { drill, ended, db, id, host, snapshot, steps } = await scene()
  const { id: snapshotId } = await snapshot()
  steps()
  const first = await drill()
  t.is(first.hostId, 'h1', 'no other host has its image')
  t.is((await ended(first.id)).state, 'success')
  t.deepEqual(steps(), ['drillSnapshot'])
  const contents = 'c'.repeat(64)
  const [good] = await listDrills(db, { databaseId: id, limit: 9 })
  t.like(good, { outcome: 'good', reason: null, snapshot_id: snapshotId, host_id: 'h1', actor, size: '10' })
  t.like(good, { digest: contents, expected: contents, operation_id: first.id })
  t.true(good!.ended_at >= good!.started_at)

  host().digest = 'd'.repeat(64)
  const second = await drill()
  t.like(await ended(second.id), { state: 'error', code: 'SNAPSHOT_CORRUPT', message: 'It has other contents.' })
  const [failed, ...others] = await listDrills(db, { databaseId: id, limit: 9 })
  t.like(failed, { outcome: 'failed', reason: 'It has other contents.', digest: 'd'.repeat(64), expected: contents })
  t.is(failed!.code, 'SNAPSHOT_CORRUPT')
  t.is(others.length, 1)
  await (await kit).keep('database-drill', id)
})

test('a drill whose host fails is evidence too, and leaves nothing there; the next snapshot gets the slot', async t => {
  const { drill, ended, db, id, fail, snapshot, steps, row } = await scene()
  await snapshot()
  steps()
  fail('drillSnapshot', 1, refusal('ACTION_FAILED', 'The engine did not serve.'))
  t.is((await ended((await drill()).id)).state, 'error')
  await comesTrue(() => steps().includes('discardDrill'))
  t.like((await listDrills(db, { databaseId: id, limit: 1 }))[0], {
    outcome: 'failed',
    code: 'ACTION_FAILED',
    reason: 'The engine did not serve.',
  })
  await snapshot()
  t.is((await row()).status, 'running')
  await (await kit).keep('database-drill-failed', id)
})

test('a snapshot, a restore and a drill keep their slot for 4 h at most, with all attempts', async t => {
  const { drill, ended, id, snapshot, restored, client } = await scene()
  const hours = async (step: DatabaseStepName, timeout: 'scheduleToCloseTimeout' | 'startToCloseTimeout') => {
    const { events } = await client.workflow.getHandle(databaseLaneId(id)).fetchHistory()
    const scheduled = (events ?? []).map(event => event.activityTaskScheduledEventAttributes)
    const last = scheduled.findLast(one => one?.activityType?.name === step)
    return Number(last?.[timeout]?.seconds) / 3600
  }
  await snapshot()
  t.is(await hours('takeDatabaseSnapshot', 'scheduleToCloseTimeout'), 4)
  await ended((await drill()).id)
  // Its place in the line is lost with the attempt.
  t.is(await hours('awaitDatabaseSnapshotPlace', 'startToCloseTimeout'), 12)
  t.is(await hours('drillSnapshot', 'scheduleToCloseTimeout'), 4)
  await restored()
  t.is(await hours('prepareRestore', 'scheduleToCloseTimeout'), 4)
})

test('an engine that loads its data has hours for that in each kind of start', async t => {
  const { id, act, command, fail, restored, client } = await scene()
  const last = async () => {
    const { events } = await client.workflow.getHandle(databaseLaneId(id)).fetchHistory()
    const scheduled = (events ?? []).map(event => event.activityTaskScheduledEventAttributes)
    return scheduled.findLast(one => one?.activityType?.name === 'startDatabase')
  }
  const hours = async () => Number((await last())?.startToCloseTimeout?.seconds) / 3600
  await command('stop')
  await command('start')
  t.is(await hours(), 7)
  t.is(
    Number((await last())?.scheduleToStartTimeout?.seconds),
    30,
    'a host that is updated meanwhile takes it up again',
  )
  await restored()
  t.is(await hours(), 7)
  await act(queueUndo)
  t.is(await hours(), 7)
  fail('startDatabase', 1)
  t.is((await command('resize', { ramMb: 1024 })).state, 'error')
  t.is(await hours(), 7, 'the undo of a change of memory')
})

test('a drill that could not read its snapshot shows nothing of it, and says why', async t => {
  const { drill, ended, db, id, fail, snapshot } = await scene()
  await snapshot()
  const away = ApplicationFailure.create({ message: 'The object store is away.', type: 'SNAPSHOT_RESTORE_FAILED' })
  fail('drillSnapshot', 2, away)
  const outcome = { code: 'SNAPSHOT_RESTORE_FAILED', message: 'The object store is away.' }
  t.like(await ended((await drill()).id), { state: 'error', ...outcome })
  t.like((await listDrills(db, { databaseId: id, limit: 1 }))[0], {
    ...{ outcome: 'prevented', code: outcome.code, reason: outcome.message, digest: null },
  })
  t.false((await listFailingDrills(db)).some(one => one.database_id === id))
})

test('a drill that fails before it tries its snapshot shows nothing of it', async t => {
  const { drill, ended, db, id, fail, snapshot, steps } = await scene()
  await snapshot()
  steps()
  fail('awaitDatabaseSnapshotPlace', 1, refusal('ACTION_FAILED', 'The container host does not answer.'))
  t.like(await ended((await drill()).id), { state: 'error', message: 'The container host does not answer.' })
  t.false(steps().includes('drillSnapshot'))
  t.like((await listDrills(db, { databaseId: id, limit: 1 }))[0], { outcome: 'prevented', digest: null })
  t.false((await listFailingDrills(db)).some(one => one.database_id === id))
})

test('commands do not wait for a drill; a cancelled one, or that of a deleted database, is no evidence', async t => {
  for (const how of ['cancelled', 'deleted'] as const) {
    const { drill, command, db, id, user, snapshot, databases, databaseLanes, run } = await scene()
    await snapshot()
    let open = () => {}
    const held = new Promise<void>(resolve => (open = resolve))
    seen.set(id, async name => {
      if (name === 'drillSnapshot') await held
    })
    const { id: operationId } = await drill()
    await databaseLanes.wake(id, user.id)
    await comesTrue(() => databases.steps(id).includes('drillSnapshot'))
    t.is((await command('stop')).state, 'success')
    t.is((await command('start')).state, 'success')
    if (how === 'deleted') t.is((await command('delete')).state, 'success')
    else {
      t.is(await transaction(db, trx => cancelOperation(trx, { operationId, actor })), 'requested')
      await databaseLanes.wake(id, user.id)
    }
    t.is((await run.ended(operationId)).state, 'cancelled')
    open()
    t.deepEqual(await listDrills(db, { databaseId: id, limit: 9 }), [])
    await comesTrue(() => databases.steps(id).includes('discardDrill'))
  }
})

test('a restore that an operator cancels says so, and changes nothing', async t => {
  const { queue, db, id, user, snapshot, databases, databaseLanes, run, row } = await scene()
  const { id: snapshotId } = await snapshot()
  seen.set(id, async name => {
    if (name !== 'prepareRestore') return
    const signal = cancellationSignal()
    await once(signal, 'abort')
    throw signal.reason
  })
  const operationId = await queue('restore', { snapshotId })
  await databaseLanes.wake(id, user.id)
  await comesTrue(() => databases.steps(id).includes('prepareRestore'))
  t.is(await transaction(db, trx => cancelOperation(trx, { operationId, actor })), 'requested')
  await databaseLanes.wake(id, user.id)
  const message = 'Cancelled by an operator.'
  t.like(await run.ended(operationId), { state: 'cancelled', code: 'DEPLOY_CANCELLED', message })
  t.like(await row(), { status: 'running', generation: 1, retired_generation: null })
})
