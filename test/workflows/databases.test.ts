import test from 'ava'
import { PortTaken } from '../../activities/containers/port.ts'
import { refusal } from '../../activities/failures.ts'
import { VolumeLost } from '../../activities/volumes/port.ts'
import { queueDatabaseSnapshot } from '../../db/databases/database-snapshots.ts'
import { loadDatabase } from '../../db/databases/databases.ts'
import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'
import * as operations from '../../db/operations/operations.ts'
import { holdSnapshotSlot, releaseSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { type DatabaseStepName, endWaits } from '../../policy/databases/database-steps.ts'
import { databaseLaneId } from '../../workflows/ids.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { plansOfMemory, rows } from '../kit/rows/rows.ts'
import { laneKit } from './lane-kit.ts'

/** Steps that fail, by the database: how often. */
const failing = new Map<string, Partial<Record<DatabaseStepName, number>>>()
/** Called at each step of a database. */
const seen = new Map<string, (name: DatabaseStepName) => Promise<void>>()

const kit = laneKit(
  {},
  {},
  {
    async before({ databaseId }, name) {
      await seen.get(databaseId)?.(name)
      const left = failing.get(databaseId)?.[name] ?? 0
      if (left <= 0) return
      failing.get(databaseId)![name] = left - 1
      if (name === 'prepareRestore') throw refusal('SNAPSHOT_CORRUPT', `${name} fails`) // else it is tried again for long
      throw new Error(`${name} fails`)
    },
  },
)

async function scene() {
  const base = await kit
  const { db, make, databaseLanes, databases, run } = base
  await make.databaseHost('h1', { memoryMb: 65_536 })
  const user = await make.user()
  const { database, operationId } = await make.database(user.id)
  async function ask(kind: DatabaseOperationKind, input: Record<string, unknown> = {}) {
    const { id } = await operations.enqueueOperation(db, {
      targetType: 'database',
      targetId: database.id,
      kind,
      ownerId: user.id,
      actor: user.id,
      input,
    })
    await databaseLanes.wake(database.id, user.id)
    return id
  }
  return {
    ...base,
    id: database.id,
    user,
    operationId,
    ask,
    command: async (kind: DatabaseOperationKind, input?: Record<string, unknown>) => run.ended(await ask(kind, input)),
    row: () => loadDatabase(db, database.id),
    host: () => databases.at(database.id),
    async created() {
      await databaseLanes.wake(database.id, user.id)
      return run.ended(operationId)
    },
  }
}

test('a database is made, stopped, started and deleted, in the order of its requests', async t => {
  const { created, command, row, host, databases, id } = await scene()
  t.is((await created()).state, 'success')
  t.like(await row(), { status: 'running', desired_state: 'running', password_generation: 1 })
  t.deepEqual(databases.steps(id), ['prepareDatabase', 'startDatabase', 'setDatabasePassword'])
  t.like(host(), { runs: 512, password: 1 })

  t.like(await command('start'), { state: 'error', code: 'CONTAINER_ALREADY_STARTED' })
  t.is((await command('stop')).state, 'success')
  t.like(await row(), { status: 'exited', desired_state: 'stopped' })
  t.like(await command('stop'), { state: 'error', code: 'CONTAINER_ALREADY_STOPPED' })
  t.is((await command('start')).state, 'success')
  t.like(await row(), { status: 'running', desired_state: 'running' })

  t.is((await command('delete')).state, 'success')
  t.is(await row(), undefined)
  t.like(host(), { container: false, runs: null })
  await comesTrue(() => !host().volume)
  t.like(await command('start'), { state: 'error', code: 'DATABASE_NOT_FOUND' })
  await (await kit).keep('database-commands', id)
})

for (const name of ['prepareDatabase', 'startDatabase', 'setDatabasePassword'] as const)
  test(`a creation whose ${name} fails leaves nothing but its reason`, async t => {
    const { created, row, host, id, db, user } = await scene()
    failing.set(id, { [name]: 100 })
    t.like(await created(), { state: 'error', code: 'ACTION_FAILED', message: `${name} fails` })
    t.is(await row(), undefined)
    t.like(host(), { volume: false, container: false, runs: null })
    t.deepEqual(await db('databases').where({ owner_id: user.id }), [])
    await (await kit).keep(`database-create-failed-${name}`, id)
  })

test('a creation that is cancelled, or whose database is deleted meanwhile, leaves nothing', async t => {
  for (const how of ['cancelled', 'deleted'] as const) {
    const { created, row, host, id, db, operationId, ask, databaseLanes, user, run } = await scene()
    let deletion: string | undefined
    seen.set(id, async name => {
      if (name !== 'startDatabase' || deletion !== undefined) return
      deletion = how === 'deleted' ? await ask('delete') : ''
      if (how === 'cancelled') {
        await db('operations').where({ id: operationId }).update({ cancel_requested_at: db.fn.now() })
        await databaseLanes.wake(id, user.id)
      }
    })
    t.like(await created(), { state: 'cancelled', code: 'DATABASE_CREATION_FAILED' })
    if (deletion) t.is((await run.ended(deletion)).state, 'success')
    t.is(await row(), undefined)
    t.like(host(), { volume: false, container: false, runs: null })
    await (await kit).keep(`database-create-${how}`, id)
  }
})

test('a creation whose cancellation its lane does not notice is cancelled at its end', async t => {
  const { created, row, host, id, db, operationId } = await scene()
  seen.set(id, async name => {
    if (name === 'setDatabasePassword')
      await db('operations').where({ id: operationId }).update({ cancel_requested_at: db.fn.now() })
  })
  t.like(await created(), { state: 'cancelled', code: 'DATABASE_CREATION_FAILED' })
  t.is(await row(), undefined)
  t.like(host(), { volume: false, container: false, runs: null })
})

test('a port that something else has is replaced by another one', async t => {
  const { created, row, id } = await scene()
  const ports: (number | undefined)[] = []
  seen.set(id, async name => {
    if (name !== 'startDatabase') return
    ports.push((await row())?.port)
    if (ports.length < 3) throw refusal('CONTAINER_NETWORK_CONFLICT', 'The port on the host is in use.')
  })
  t.is((await created()).state, 'success')
  t.is(new Set(ports).size, 3)
  t.is((await row())?.port, ports[2])
  await (await kit).keep('database-create-port', id)
})

test('a rotation that fails at its host gives the old password back; the next one works', async t => {
  const { created, command, row, host, id } = await scene()
  await created()
  failing.set(id, { setDatabasePassword: 3 })
  t.like(await command('rotate'), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { password_generation: 1, status: 'running' })
  t.is(host().password, 1)
  t.is((await command('rotate')).state, 'success')
  t.like(await row(), { password_generation: 2 })
  t.is(host().password, 2)
  await (await kit).keep('database-rotate', id)
})

test('a rotation that ends after its caller was answered gives the old password back', async t => {
  const { created, command, row, host, id } = await scene()
  await created()
  lateIn(id, 'setDatabasePassword', 'rotate')
  t.like(await command('rotate'), { state: 'error', code: 'RESET_FAILED' })
  t.like(await row(), { password_generation: 1, status: 'running' })
  t.is(host().password, 1)
})

/** The caller of an operation is answered while the host is in a step of it, as after a worker that was away for long. */
function lateIn(id: string, step: DatabaseStepName, kind: DatabaseOperationKind): void {
  seen.set(id, async name => {
    if (name !== step) return
    const { db } = await kit
    await db('operations')
      .where({ target_id: id, kind })
      .update({ end_before: new Date(Date.now() - 1000) })
  })
}

/** Another run of the lane takes an operation over whose caller was answered while the host was in this step of it. */
async function takenOverLate(
  { id, ask, client, databaseLanes, user, run }: Awaited<ReturnType<typeof scene>>,
  step: DatabaseStepName,
  wanted: { kind: DatabaseOperationKind; input?: Record<string, unknown> },
) {
  let open = () => {}
  const held = new Promise<void>(resolve => (open = resolve))
  let isIn = false
  lateIn(id, step, wanted.kind)
  const late = seen.get(id)!
  seen.set(id, async name => {
    if (name !== step) return
    await late(name)
    isIn = true
    await held
  })
  const operation = await ask(wanted.kind, wanted.input)
  await comesTrue(() => isIn)
  await client.workflow.getHandle(databaseLaneId(id)).terminate('forgotten')
  seen.delete(id)
  open()
  await databaseLanes.wake(id, user.id)
  return run.ended(operation)
}

test('a rotation that another run takes over too late gives the old password back', async t => {
  const all = await scene()
  const { created, row, host, id } = all
  await created()
  t.like(await takenOverLate(all, 'setDatabasePassword', { kind: 'rotate' }), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { password_generation: 1, status: 'running' })
  t.is(host().password, 1)
  await (await kit).keep('database-rotate-taken-over', id)
})

test('a rotation that another run takes over before it has begun leaves a database stopped', async t => {
  const { created, command, row, host, id, ask, client, databaseLanes, user, run, db, databases } = await scene()
  await created()
  await command('stop')
  await client.workflow.getHandle(databaseLaneId(id)).terminate('forgotten')
  const rotation = await ask('rotate')
  await run.ended(rotation)
  const steps = databases.steps(id)
  await client.workflow.getHandle(databaseLaneId(id)).terminate('forgotten')
  await db('operations').where({ id: rotation }).update({ state: 'running', finished_at: null, code: null })
  await databaseLanes.wake(id, user.id)
  t.like(await run.ended(rotation), { state: 'error', code: 'DATABASE_NOT_RUNNING' })
  t.like(await row(), { status: 'exited', desired_state: 'stopped' })
  t.is(host().runs, null)
  t.deepEqual(databases.steps(id), steps)
})

test('a change of memory that another run takes over too late is reverted', async t => {
  const all = await scene()
  const { created, row, host, id } = all
  await created()
  const resize = { kind: 'resize', input: { ramMb: 1024 } } as const
  t.like(await takenOverLate(all, 'startDatabase', resize), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { ram_mb: 512, reserved_mb: 512, status: 'running' })
  t.is(host().runs, 512)
  await (await kit).keep('database-resize-taken-over', id)
})

test('a change of memory that another run takes over too late, and before anything was stopped, stops nothing', async t => {
  const { created, row, host, id, client, databaseLanes, user, run, db, databases } = await scene()
  await created()
  await client.workflow.getHandle(databaseLaneId(id)).terminate('forgotten')
  const steps = databases.steps(id)
  const owner = { ownerId: user.id, actor: user.id }
  const asked = { ...owner, targetType: 'database', targetId: id, kind: 'resize', input: { ramMb: 1024 } } as const
  const resize = await operations.enqueueOperation(db, asked)
  const claimed = { state: 'running', claim: 'lost', started_at: new Date() }
  await db('operations')
    .where({ id: resize.id })
    .update({ ...claimed, end_before: new Date(Date.now() - 1000) })
  await databaseLanes.wake(id, user.id)
  t.like(await run.ended(resize.id), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { ram_mb: 512, reserved_mb: 512, status: 'running' })
  t.is(host().runs, 512)
  t.deepEqual(databases.steps(id), steps)
})

test('a deletion that ends after its caller was answered deletes nothing', async t => {
  const { created, command, row, host, id, databases } = await scene()
  await created()
  // When the next snapshot is due is changed by a round of all databases.
  const unchanged = async () => ({ ...(await row()), snapshot_due_at: null })
  const before = await unchanged()
  lateIn(id, 'removeDatabaseContainers', 'delete')
  t.like(await command('delete'), { state: 'error', code: 'ACTION_FAILED' })
  // Its host finds no container for what is to run, and makes one.
  t.deepEqual(await unchanged(), before)
  t.true(host().volume)
  t.false(databases.steps(id).includes('removeDatabaseVolumes'))
  seen.delete(id)
  t.is((await command('delete')).state, 'success')
})

test('a change of memory that ends after its caller was answered is reverted', async t => {
  const { created, command, row, host, id } = await scene()
  await created()
  lateIn(id, 'startDatabase', 'resize')
  t.like(await command('resize', { ramMb: 1024 }), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { ram_mb: 512, reserved_mb: 512, status: 'running' })
  t.is(host().runs, 512)
})

test('the row has the new generation before the engine gets its password', async t => {
  const { created, command, row, id } = await scene()
  await created()
  const generations: (number | undefined)[] = []
  seen.set(id, async name => {
    if (name === 'setDatabasePassword') generations.push((await row())?.password_generation)
  })
  await command('rotate')
  t.deepEqual(generations, [2])
})

test('a rotation or a new certificate of a database that does not run is refused, and changes nothing', async t => {
  const { created, command, row, databases, id } = await scene()
  await created()
  await command('stop')
  const before = databases.steps(id)
  for (const kind of ['rotate', 'certify'] as const)
    t.like(await command(kind), { state: 'error', code: 'DATABASE_NOT_RUNNING' })
  t.deepEqual(databases.steps(id), before)
  t.like(await row(), { password_generation: 1 })
})

test('a new certificate is issued without a stop', async t => {
  const { created, command, host, databases, id } = await scene()
  await created()
  t.is((await command('certify')).state, 'success')
  t.is(host().certificates, 1)
  t.false(databases.steps(id).includes('stopDatabase'))
  await (await kit).keep('database-certify', id)
})

test('another memory takes one stop and one start; when the engine does not serve with it, it gets the old one back', async t => {
  const { created, command, row, host, id, databases } = await scene()
  await created()
  t.is((await command('resize', { ramMb: 1024 })).state, 'success')
  t.like(await row(), { ram_mb: 1024, cpu: 1, status: 'running' })
  t.is(host().runs, 1024)
  t.deepEqual(databases.steps(id).slice(-2), ['stopDatabase', 'startDatabase'])
  const steps = databases.steps(id).length
  t.is((await command('resize', { ramMb: 1024 })).state, 'success')
  t.is(databases.steps(id).length, steps, 'the same memory is no reason to stop it')

  failing.set(id, { startDatabase: 3 })
  t.like(await command('resize', { ramMb: 2048 }), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { ram_mb: 1024, status: 'running' })
  t.is(host().runs, 1024)
  const begun = databases.steps(id).length
  t.is((await command('resize', { ramMb: 1024 })).state, 'success')
  t.true(databases.steps(id).length > begun, 'after a failure the row alone is not believed')

  await command('stop')
  t.is((await command('resize', { ramMb: 512 })).state, 'success')
  t.like(await row(), { ram_mb: 512, status: 'exited' })
  t.is(host().runs, null, 'what is stopped stays stopped')
  await (await kit).keep('database-resize', id)
})

test('an undo waits for what its host lacks, and does not leave the engine down', async t => {
  const { created, command, row, host, id, databases } = await scene()
  await created()
  const lacks = [new NoSpaceLeft('The host is full.'), new PortTaken('The port is in use.'), new VolumeLost(id)]
  failing.set(id, { startDatabase: 3 })
  let stops = 0
  seen.set(id, async name => {
    if (name === 'stopDatabase') stops++
    const missing = name === 'startDatabase' && stops > 1 && lacks.shift()
    if (missing) throw missing
  })
  t.like(await command('resize', { ramMb: 1024 }), {
    state: 'error',
    code: 'ACTION_FAILED',
    message: 'startDatabase fails',
  })
  t.deepEqual(lacks, [])
  t.like(await row(), { ram_mb: 512, status: 'running' })
  t.is(host().runs, 512)
  t.deepEqual(databases.steps(id).slice(-6), ['startDatabase', 'stopDatabase', ...Array(4).fill('startDatabase')])
  seen.delete(id)
})

test('an undo that a stop or deletion ends leaves nothing half done: what it would start is not wanted', async t => {
  const { created, command, row, id } = await scene()
  await created()
  let starts = 0
  seen.set(id, async name => {
    if (name !== 'startDatabase') return
    starts++
    throw starts === 1 ? refusal('INVALID_MEMORY', 'Too little.') : refusal(endWaits, 'The database is to be stopped.')
  })
  t.like(await command('resize', { ramMb: 1024 }), { state: 'error', code: 'INVALID_MEMORY', message: 'Too little.' })
  t.is(starts, 2, 'no attempt could change that')
  t.is((await row())?.ram_mb, 512)
  seen.delete(id)
})

/** A snapshot that waits for its lane, as the API stores it. */
async function snapshotOf({ db, id, user }: Awaited<ReturnType<typeof scene>>) {
  return queueDatabaseSnapshot(db, {
    databaseId: id,
    ownerId: user.id,
    actor: user.id,
    origin: 'manual',
    plans: plansOfMemory(4096),
  })
}

test('a snapshot is good once its host has proved it; a restore of it switches the volume by one stop and one start', async t => {
  const all = await scene()
  const { created, row, host, id, user, db, databases, run, databaseLanes, command } = all
  await created()
  const snapshot = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  t.is((await run.ended(snapshot.operation_id)).state, 'success')
  t.like(await db('snapshots').where({ id: snapshot.id }).first(), {
    state: 'good',
    contents: 'c'.repeat(64),
    restored_bytes: '30',
  })

  const before = databases.steps(id).length
  t.is((await command('restore', { snapshotId: snapshot.id })).state, 'success')
  t.deepEqual(databases.steps(id).slice(before), [
    'prepareRestore',
    'stopDatabase',
    'startDatabase',
    'setDatabasePassword',
  ])
  const restored = await row()
  t.like(restored, { status: 'running', retired_generation: 1 })
  t.is(host().generation, restored!.generation)
  t.true(restored!.generation > 1)
  await (await kit).keep('database-restore', id)
})

for (const name of ['prepareRestore', 'startDatabase', 'setDatabasePassword'] as const)
  test(`a restore whose ${name} fails leaves the database as it was`, async t => {
    const all = await scene()
    const { created, row, host, id, user, run, databaseLanes, command } = all
    await created()
    const snapshot = await snapshotOf(all)
    await databaseLanes.wake(id, user.id)
    await run.ended(snapshot.operation_id)
    failing.set(id, { [name]: name === 'startDatabase' ? 2 : 5 })
    t.like(await command('restore', { snapshotId: snapshot.id }), { state: 'error' })
    t.like(await row(), { status: 'running', generation: 1, retired_generation: null })
    t.like(host(), { generation: 1, runs: 512, copy: null })
    await (await kit).keep(`database-restore-failed-${name}`, id)
  })

test('a restore that fails keeps the volume that an earlier one has replaced', async t => {
  const all = await scene()
  const { created, row, id, user, run, databaseLanes, command } = all
  await created()
  const snapshot = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  await run.ended(snapshot.operation_id)
  t.is((await command('restore', { snapshotId: snapshot.id })).state, 'success')
  const { generation, retired_generation, retired_until } = (await row())!
  t.is(retired_generation, 1)
  failing.set(id, { startDatabase: 2 })
  t.like(await command('restore', { snapshotId: snapshot.id }), { state: 'error' })
  t.like(await row(), { generation, retired_generation, retired_until })
})

test('a stopped database stays stopped when it is restored', async t => {
  const all = await scene()
  const { created, row, id, user, databases, run, databaseLanes, command } = all
  await created()
  await command('stop')
  const snapshot = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  t.is((await run.ended(snapshot.operation_id)).state, 'success')
  t.is((await command('restore', { snapshotId: snapshot.id })).state, 'success')
  t.like(await row(), { status: 'exited', retired_generation: 1 })
  t.is(databases.steps(id).at(-1), 'prepareRestore')
  await (await kit).keep('database-restore-stopped', id)
})

test.serial('a snapshot takes a slot in the step that copies, and stands in line where none is free', async t => {
  const all = await scene()
  const { created, id, user, db, run, databaseLanes } = all
  await created()
  const steps: DatabaseStepName[] = []
  seen.set(id, async name => void steps.push(name))
  const first = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  t.is((await run.ended(first.operation_id)).state, 'success')
  t.deepEqual(steps, ['takeDatabaseSnapshot'])
  // The slot is free a moment after the end.
  for (const another of ['another', 'third']) await comesTrue(() => holdSnapshotSlot(db, 'h1', another))
  const second = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  const waits = async () => (await operations.findOperation(db, second.operation_id))?.step ?? ''
  await comesTrue(async () => (await waits()).startsWith('waiting for its host'))
  for (const another of ['another', 'third']) await releaseSnapshotSlot(db, 'h1', another)
  t.is((await run.ended(second.operation_id)).state, 'success')
  t.deepEqual(steps.slice(1), ['awaitDatabaseSnapshotPlace', 'takeDatabaseSnapshot'])
  await (await kit).keep('database-snapshot-in-line', id)
})

test.serial('a snapshot at a host that is away stands in line, where operators see what it waits for', async t => {
  const all = await scene()
  const { created, id, user, db, databaseLanes } = all
  await created()
  await rows(db).databaseHost('away')
  await db('databases').where({ id }).update({ host_id: 'away' })
  const snapshot = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  const step = async () => (await operations.findOperation(db, snapshot.operation_id))?.step ?? ''
  await comesTrue(async () => (await step()).startsWith('waiting for its host'))
  t.pass()
})

test('a stop does not wait for a snapshot, which ends; a rotation leaves it alone', async t => {
  const all = await scene()
  const { created, id, user, run, databaseLanes, command } = all
  await created()
  let open = () => {}
  const held = new Promise<void>(resolve => (open = resolve))
  seen.set(id, async name => {
    if (name === 'takeDatabaseSnapshot') await held
  })
  const snapshot = await snapshotOf(all)
  await databaseLanes.wake(id, user.id)
  await comesTrue(() => all.databases.steps(id).includes('takeDatabaseSnapshot'))
  t.is((await command('rotate')).state, 'success')
  t.is((await command('stop')).state, 'success')
  t.like(await run.ended(snapshot.operation_id), { state: 'error', code: 'SNAPSHOT_FAILED' })
  open()
  await (await kit).keep('database-snapshot-ended', id)
})

test('Redis that holds more than the requested memory is refused before anything has changed', async t => {
  const { created, command, row, host, databases, id } = await scene()
  await created()
  t.is((await command('resize', { ramMb: 2048 })).state, 'success')
  host().data = 1500
  const before = databases.steps(id).length
  const refused = await command('resize', { ramMb: 1024 })
  t.like(refused, { state: 'error', code: 'INVALID_MEMORY', message: 'The data do not fit.' })
  t.like(await row(), { status: 'running', ram_mb: 2048, reserved_mb: 2048 })
  t.like(host(), { runs: 2048, limit: null }, 'its limit is the former one again')
  t.deepEqual(databases.steps(id).slice(before), ['fitDatabaseMemory', 'fitDatabaseMemory'], 'it was not stopped')
  host().data = 1000
  const limits: (number | null)[] = []
  seen.set(id, async name => {
    if (name === 'stopDatabase') limits.push(host().limit)
  })
  t.is((await command('resize', { ramMb: 1024 })).state, 'success')
  t.like(await row(), { status: 'running', ram_mb: 1024, reserved_mb: 1024 })
  t.is(host().runs, 1024)
  t.deepEqual(limits, [1024], 'nobody could add to its data until it was stopped')
  await (await kit).keep('database-resize-refused', id)
})

test('a smaller memory with which the engine does not start gives the former limit back', async t => {
  const { created, command, row, host, id } = await scene()
  await created()
  await command('resize', { ramMb: 1024 })
  failing.set(id, { startDatabase: 3 })
  t.like(await command('resize', { ramMb: 512 }), { state: 'error', code: 'ACTION_FAILED' })
  t.like(await row(), { status: 'running', ram_mb: 1024 })
  t.like(host(), { runs: 1024, limit: null })
})

test('a stopped database is queried too before it gets less memory, and needs no host to get more', async t => {
  const { created, command, row, host, databases, id } = await scene()
  await created()
  await command('resize', { ramMb: 1024 })
  await command('stop')
  host().data = 1000
  const before = databases.steps(id).length
  t.like(await command('resize', { ramMb: 512 }), { state: 'error', code: 'INVALID_MEMORY' })
  t.like(await row(), { status: 'exited', ram_mb: 1024 })
  host().data = 100
  t.is((await command('resize', { ramMb: 512 })).state, 'success')
  const asked = databases.steps(id).length
  t.is((await command('resize', { ramMb: 4096 })).state, 'success')
  t.like(await row(), { status: 'exited', ram_mb: 4096 })
  t.is(host().runs, null)
  t.true(asked > before)
  t.is(databases.steps(id).length, asked)
})

test('an engine with data on its disk is not queried', async t => {
  const { created, command, databases, id, db } = await scene()
  await db('databases').where({ id }).update({ engine: 'mysql', version: '9', ram_mb: 2048, reserved_mb: 2048 })
  await created()
  t.is((await command('resize', { ramMb: 1024 })).state, 'success')
  t.false(databases.steps(id).includes('fitDatabaseMemory'))
})

test('a good snapshot, and no failed one, postpones the warning that there is none', async t => {
  const { created, db, id, user, run, databaseLanes, row } = await scene()
  await created()
  const take = async () => {
    const request = { databaseId: id, ownerId: user.id, actor: 'platform', origin: 'automatic' } as const
    const { operation_id: operation } = await queueDatabaseSnapshot(db, { ...request, plans: plansOfMemory(4096) })
    await databaseLanes.wake(id, user.id)
    return run.ended(operation)
  }
  await db('databases').where({ id }).update({ snapshot_warn_at: null })
  seen.set(id, async name => {
    if (name === 'takeDatabaseSnapshot') throw refusal('SNAPSHOT_FAILED', 'It fails.')
  })
  t.is((await take()).state, 'error')
  t.is((await row())?.snapshot_warn_at, null)
  seen.delete(id)
  t.is((await take()).state, 'success')
  const days = ((await row())!.snapshot_warn_at!.getTime() - Date.now()) / 86_400_000
  t.true(days > 2.9 && days <= 3)
})
