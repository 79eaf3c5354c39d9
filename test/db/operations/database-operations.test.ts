import test from 'ava'
import { confirmOperation, undoOperation, undoUnconfirmed } from '../../../db/acceptance.ts'
import { usedMemoryMb } from '../../../db/accounts/account-reservations.ts'
import { transaction } from '../../../db/database.ts'
import { removeDatabase, reserveMoreMemory } from '../../../db/databases/database-creation.ts'
import {
  findDatabase,
  listDatabases,
  loadDatabase,
  recordDatabaseDesired,
  recordDatabaseMemory,
  recordDatabaseStatus,
} from '../../../db/databases/databases.ts'
import { readDatabaseFacts } from '../../../db/operations/database-facts.ts'
import { claimNextOperationFor, holdClaim } from '../../../db/operations/operation-claims.ts'
import { readOperationFacts } from '../../../db/operations/operation-facts.ts'
import * as operations from '../../../db/operations/operations.ts'
import { listOperations, readOperationStory } from '../../../db/operations/operator.ts'
import { cancelOperation, retryOperation } from '../../../db/operations/operator-acts.ts'
import { mayEndUndo } from '../../../db/operations/undo-failures.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const target = (id: string) => ({ type: 'database', id }) as const
const claim = (step = 1, run = 'lane') => ({ run, step })

/** A database that was created, and serves. */
async function served(accepting = false) {
  const { db } = await database
  const make = rows(db)
  await make.databaseHost('h1', { memoryMb: 1_000_000 })
  const { id: ownerId } = await make.user()
  const { database: made, operationId } = await make.database(ownerId, { accepting })
  const { id } = made
  const serves = async () => {
    await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: db.fn.now() })
    const running = { status: 'running', container_id: 'c', started_at: db.fn.now(), provisioned_at: db.fn.now() }
    await db('databases').where({ id }).update(running)
  }
  if (!accepting) await serves()
  const ask = async (kind: operations.DatabaseOperationKind, terms: Partial<operations.NewOperation> = {}) => {
    const enqueue = kind === 'delete' ? operations.enqueueDeletion : operations.enqueueOperation
    const asked = { ...terms, targetType: 'database', targetId: id, kind, ownerId, actor: ownerId } as const
    return (await enqueue(db, asked)).id
  }
  const next = (inProgress: operations.DatabaseOperationKind[] = []) =>
    claimNextOperationFor(db, target(id), claim(), inProgress)
  const end = (operationId: string, state: 'success' | 'error' = 'error') =>
    transaction(db, trx => operations.finishOperation(trx, operationId, { state }))
  return { db, make, ownerId, id, operationId, ask, next, end, row: () => loadDatabase(db, id) }
}

test('operations of a database are claimed one at a time, deletions first, snapshots and restores alongside', async t => {
  const { db, ask, next, end } = await served()
  const [resize, snapshot, restore] = [await ask('resize'), await ask('snapshot'), await ask('restore')]
  t.like(await next(), { id: resize, kind: 'resize', target_type: 'database' })
  await end(resize, 'success')
  t.is((await next())?.id, snapshot)
  t.is((await next(['snapshot']))?.id, restore)
  const [second, rotate] = [await ask('snapshot'), await ask('rotate')]
  t.is((await next(['snapshot', 'restore']))?.id, rotate, 'one snapshot at a time')
  await end(rotate, 'success')
  t.is(await next(['snapshot', 'restore']), undefined)
  await end(restore, 'success')
  await end(snapshot)
  const deletion = await ask('delete')
  t.is((await next())?.id, deletion)
  await db('operations').where({ id: second }).delete()
})

test('an operation of an application with the same target id is none of a database, and the other way round', async t => {
  const { db, id, ownerId, ask, next } = await served()
  const own = await ask('restore')
  const { id: other } = await operations.enqueueOperation(db, { targetId: id, kind: 'deploy', ownerId, actor: ownerId })
  await db('operations').where({ id: other }).update({ state: 'running', started_at: db.fn.now() })
  t.is((await next())?.id, own)
  t.like(await db('operations').where({ id: other }).first(), { claim: null })
  t.deepEqual(await operations.findOperationsToCancel(db, target(id)), [])
  await db('operations').where({ id: own }).update({ cancel_requested_at: db.fn.now() })
  t.deepEqual(await operations.findOperationsToCancel(db, target(id)), [own])
  t.true(await operations.isRestorePending(db, id, 'database'))
  t.false(await operations.isRestorePending(db, id))
  t.false(await operations.isBusy(db, id, 'database'), 'a restore that only prepares holds nothing up')
  await ask('stop')
  t.true(await operations.isBusy(db, id, 'database'))
  t.false(await operations.isSwitching(db, id, 'database'))
  t.is(await readOperationFacts(db, own), undefined)
  t.is(await readDatabaseFacts(db, other), undefined)
  await removeDatabase(db, id)
  t.is((await operations.findOperation(db, other))?.state, 'running')
  t.false(await operations.wasRemoved(db, id, 'database'))
  t.true(await confirmOperation(db, other))
})

test('targets that wait for a lane are listed with their type', async t => {
  const { db, id, ask } = await served()
  const stop = await ask('stop')
  await db('operations')
    .where({ id: stop })
    .update({ created_at: new Date(0) })
  const waiting = await operations.listWaitingTargets(db, { queuedSeconds: 1, runningSeconds: 5, except: [] })
  t.like(
    waiting.find(({ target_id }) => target_id === id),
    { target_type: 'database', running: false },
  )
})

test('a run of a lane holds an operation, for its database and its kind only; a later run takes it over', async t => {
  const { db, id, ask, next } = await served()
  const rotate = await ask('rotate')
  await next()
  const hold = (subject: object, run = 'lane') =>
    db.transaction(trx => holdClaim(trx, rotate, { run, step: 2 }, subject))
  t.is(await hold({ databaseId: id, kind: 'rotate' }), 'held')
  t.is(await hold({ databaseId: id, kind: 'certify' }), 'lost')
  t.is(await hold({ databaseId: 'f'.repeat(32), kind: 'rotate' }), 'lost')
  t.is(await hold({ appId: id, kind: 'rotate' }), 'lost', 'it is no application')
  t.is((await claimNextOperationFor(db, target(id), claim(1, 'later'), []))?.id, rotate)
  t.is(await hold({ databaseId: id }), 'lost')
  t.is(await next(), undefined, 'the earlier run takes nothing back')
})

test('two runs that claim at the same moment never work on one database together', async t => {
  const { db, id, ask } = await served()
  for (const kind of ['start', 'stop', 'rotate'] as const) await ask(kind)
  const claimed = await Promise.all(
    Array.from({ length: 6 }, (_, n) => claimNextOperationFor(db, target(id), claim(1, `run-${n}`), [])),
  )
  t.is(new Set(claimed.filter(Boolean).map(operation => operation!.id)).size, 1)
  t.is((await db('operations').where({ target_id: id, state: 'running' })).length, 1)
})

test('everything that decides about a step is read from the current rows', async t => {
  const { db, id, ownerId, ask } = await served()
  const resize = await ask('resize', { input: { ramMb: 1024 } })
  await ask('delete')
  await db('databases').where({ id }).update({ certificate: 'PEM', password_generation: 3, generation: 2 })
  const { port, uid } = (await loadDatabase(db, id))!
  t.deepEqual(await readDatabaseFacts(db, resize), {
    ...{ id: resize, kind: 'resize', databaseId: id, ownerId, running: false, claim: null, claimStep: 0 },
    input: { ramMb: 1024 },
    database: {
      ...{
        id,
        ownerId,
        engine: 'redis',
        version: '8',
        image: 'berth/redis:8',
        imageId: null,
        ramMb: 512,
        diskForMb: 512,
        cpus: 1,
        hostId: 'h1',
      },
      ...{ port, uid, generation: 2, nextGeneration: 2, passwordGeneration: 3 },
      ...{ certificate: 'PEM', certificateRenewAt: null, readOnly: false },
      ...{ status: 'running', desired: 'running' },
    },
  })
  await removeDatabase(db, id)
  t.like(await readDatabaseFacts(db, resize), { ownerId, database: null })
})

test.serial(
  'a creation is invisible until it is confirmed, and an undone one leaves nothing and frees everything',
  async t => {
    const { db, ownerId, id, operationId, next } = await served(true)
    t.deepEqual(await listDatabases(db, ownerId), [])
    t.is(await findDatabase(db, ownerId, id), undefined)
    t.is(await usedMemoryMb(db, ownerId), 512)
    t.is(await next(), undefined)
    t.true(await confirmOperation(db, operationId))
    t.true(await confirmOperation(db, operationId))
    t.is((await findDatabase(db, ownerId, id))?.id, id)
    t.false(await undoOperation(db, operationId))
    t.is((await next())?.id, operationId)

    const other = await served(true)
    await db('operations')
      .where({ id: other.operationId })
      .update({ created_at: new Date(0) })
    t.is(await undoUnconfirmed(db, 60), 1)
    t.is(await other.row(), undefined)
    t.is(await usedMemoryMb(db, other.ownerId), 0)
    t.false(await confirmOperation(db, other.operationId))
  },
)

test('a deletion is refused while a restore waits or runs, and is wanted until the last one has failed', async t => {
  const { db, id, row, ask, next, end } = await served()
  const restore = await ask('restore')
  await t.throwsAsync(ask('delete'), { code: 'RESTORE_IN_PROGRESS' })
  await end((await next())!.id)
  const [undone, expired] = [await ask('delete', { accepting: true }), await ask('delete')]
  t.like(await row(), { desired_state: 'deleted', desired_if_kept: 'running' })
  await recordDatabaseDesired(db, id, 'stopped') // a stop that was under way
  t.true(await mayEndUndo(db, restore))
  t.true(await undoOperation(db, undone))
  t.is((await row())?.desired_state, 'deleted', 'one waits still')
  t.true(await operations.expireQueuedOperation(db, expired))
  t.like(await row(), { desired_state: 'stopped', desired_if_kept: null })
  t.false(await mayEndUndo(db, restore))

  const failed = await ask('delete')
  await next()
  await recordDatabaseStatus(db, id, 'deleting')
  await recordDatabaseStatus(db, id, 'running')
  t.is((await row())?.status, 'deleting')
  await end(failed)
  t.like(await row(), { status: 'running', desired_state: 'stopped' })
})

test('an operation that ends without success reverts what its start has shown', async t => {
  const { db, id, row, ask, next, end } = await served()
  for (const kind of ['resize', 'rotate', 'certify'] as const) {
    await ask(kind)
    const { id: running } = (await next())!
    await recordDatabaseStatus(db, id, 'restarting')
    await end(running)
    t.is((await row())?.status, 'running', kind)
  }
  await db('databases').where({ id }).update({ status: 'exited', started_at: null })
  for (const [kind, shown] of [
    ['start', 'starting'],
    ['resize', 'restarting'],
  ] as const) {
    await ask(kind)
    const { id: running } = (await next())!
    await recordDatabaseStatus(db, id, shown)
    await end(running)
    t.is((await row())?.status, 'exited', kind)
  }
})

test('a start that never runs leaves the start that runs', async t => {
  const { db, id, row, ask, next, end } = await served()
  await db('databases').where({ id }).update({ status: 'exited', started_at: null })
  const runs = await ask('start')
  t.is((await next())?.id, runs)
  await recordDatabaseStatus(db, id, 'starting')
  t.true(await operations.expireQueuedOperation(db, await ask('start')))
  t.is((await row())?.status, 'starting')
  await end(runs)
  t.is((await row())?.status, 'exited')
})

test('an operation that ends without success leaves the restart of a restore that switches volumes', async t => {
  const { db, id, row, ask, next, end } = await served()
  const restore = await ask('restore')
  t.is((await next())?.id, restore)
  const resize = await ask('resize')
  for (const [step, status] of [
    ['loading the snapshot', 'running'],
    [operations.changingVersions, 'restarting'],
  ] as const) {
    await recordDatabaseStatus(db, id, 'restarting')
    await db('operations').where({ id: restore }).update({ step })
    await db('operations').where({ id: resize }).update({ state: 'queued' })
    t.true(await operations.expireQueuedOperation(db, resize))
    t.is((await row())?.status, status, step)
  }
  await end(restore)
})

test('a change of size holds the memory that it needs until it has ended, and no longer', async t => {
  const { db, id, ownerId, row, next, end } = await served()
  const grow = (ramMb: number, terms: { accepting?: true } = {}) =>
    db.transaction(async trx => {
      await reserveMoreMemory(trx, { database: { id }, ramMb, plans: plansOfMemory(4096), diskMbPer256Mb: 10 })
      const asked = { targetType: 'database', targetId: id, kind: 'resize', ownerId, actor: ownerId } as const
      return (await operations.enqueueOperation(trx, { ...asked, input: { ramMb }, ...terms })).id
    })
  const reserved = async () => (await row())?.reserved_mb
  const failing = await grow(2048)
  t.is(await reserved(), 2048)
  await next()
  await end(failing)
  t.is(await reserved(), 512)

  const [first, second] = [await grow(1024), await grow(4096)]
  t.is((await next())?.id, first)
  await db.transaction(async trx => {
    await recordDatabaseMemory(trx, id, { ramMb: 1024, cpu: 1 })
    await operations.finishOperation(trx, first, { state: 'success' })
  })
  t.like(await row(), { ram_mb: 1024, reserved_mb: 4096 }, 'the second one waits')
  t.true(await operations.expireQueuedOperation(db, second))
  t.like(await row(), { ram_mb: 1024, reserved_mb: 1024 })

  t.true(await undoOperation(db, await grow(3072, { accepting: true })))
  t.is(await reserved(), 1024)
  const smaller = await grow(512)
  t.is(await reserved(), 1024)
  await next()
  await db.transaction(async trx => {
    await recordDatabaseMemory(trx, id, { ramMb: 512, cpu: 1 })
    await operations.finishOperation(trx, smaller, { state: 'success' })
  })
  t.is(await usedMemoryMb(db, ownerId), 512)
})

test.serial('a size that is requested while another change ends keeps its memory', async t => {
  const { db, id, ownerId, row, ask, next, end } = await served()
  const failing = await ask('resize', { input: { ramMb: 512 } })
  await next()
  const asking = await db.transaction()
  t.teardown(async () => void (asking.isCompleted() || (await asking.rollback())))
  await reserveMoreMemory(asking, { database: { id }, ramMb: 2048, plans: plansOfMemory(4096), diskMbPer256Mb: 10 })
  let over = false
  const ending = end(failing).finally(() => {
    over = true
  })
  const locked = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await comesTrue(async () => over || (await db.raw(locked)).rows.length >= 1)
  t.false(over, 'it waits for the database')
  const asked = { targetType: 'database', targetId: id, kind: 'resize', ownerId, actor: ownerId } as const
  await operations.enqueueOperation(asking, { ...asked, input: { ramMb: 2048 } })
  await asking.commit()
  await ending
  t.is((await row())?.reserved_mb, 2048)
})

test('a missing database tells whether its creation failed, or it was deleted', async t => {
  const { db, id, ownerId, operationId } = await served()
  await removeDatabase(db, id)
  t.false(await operations.wasRemoved(db, id, 'database'))
  await db('operations').where({ id: operationId }).update({ state: 'error', code: 'DATABASE_CREATION_FAILED' })
  t.true(await operations.wasRemoved(db, id, 'database'))
  t.is((await operations.failedCreation(db, ownerId, id, 'database'))?.id, operationId)
  t.is(await operations.failedCreation(db, ownerId, id), undefined)

  const other = await served()
  const deletion = await other.ask('delete')
  await other.next()
  await removeDatabase(db, other.id)
  await other.end(deletion, 'success')
  t.true(await operations.wasRemoved(db, other.id, 'database'))
  t.is(await operations.failedCreation(db, other.ownerId, other.id, 'database'), undefined)
})

test.serial('operators see operations of databases with name and host, and retry and cancel them', async t => {
  const { db, id, ask, next, end } = await served()
  const stop = await ask('stop')
  await next()
  await end(stop)
  const [line] = await listOperations(db, { state: 'error', limit: 1 })
  t.like(line, { id: stop, target_type: 'database', app_id: id, app_name: 'orders', host_id: 'h1' })
  t.like(await readOperationStory(db, stop, 1), { app: null, database: { id }, host: { id: 'h1' } })
  const act = (work: typeof retryOperation | typeof cancelOperation, operationId: string) =>
    db.transaction(trx => work(trx, { operationId, actor: 'operator:ana', force: false }) as Promise<object | string>)
  const again = (await act(retryOperation, stop)) as { operationId: string }
  t.like(await operations.findOperation(db, again.operationId), {
    target_type: 'database',
    kind: 'stop',
    retry_of: stop,
  })
  const snapshot = await ask('snapshot')
  t.is(await act(cancelOperation, snapshot), 'ended')
  const rotate = await ask('rotate')
  await db('operations').where({ id: rotate }).update({ state: 'error' })
  await t.throwsAsync(act(retryOperation, rotate), { message: /cannot be retried/ })
  await removeDatabase(db, id)
  await db('operations').where({ id: again.operationId }).update({ state: 'error' })
  await t.throwsAsync(act(retryOperation, again.operationId), { message: 'Its database was deleted.' })
})
