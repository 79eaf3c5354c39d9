import test from 'ava'
import { refusal } from '../../activities/failures.ts'
import { queueDatabaseSnapshot } from '../../db/databases/database-snapshots.ts'
import { loadDatabase } from '../../db/databases/databases.ts'
import * as operations from '../../db/operations/operations.ts'
import type { DatabaseStepName } from '../../policy/databases/database-steps.ts'
import { plansOfMemory } from '../kit/rows/rows.ts'
import { laneKit } from './lane-kit.ts'

/** Called at each step of a database, before its effect. */
const seen = new Map<string, (name: DatabaseStepName) => Promise<void>>()

const kit = laneKit(
  {},
  {},
  {
    async before({ databaseId }, name) {
      await seen.get(databaseId)?.(name)
    },
  },
)

/** A database that runs, with a snapshot, and how its host watch sees it at each step of a restore. */
async function scene() {
  const { db, make, databaseLanes, databases, run } = await kit
  await make.databaseHost('h1', { memoryMb: 65_536 })
  const user = await make.user()
  const { database, operationId } = await make.database(user.id)
  const { id } = database
  const ended = async (operation: string) => {
    await databaseLanes.wake(id, user.id)
    return run.ended(operation)
  }
  const command = async (kind: 'stop' | 'restore', input: Record<string, unknown> = {}) => {
    const target = { targetType: 'database', targetId: id, ownerId: user.id, actor: user.id } as const
    return ended((await operations.enqueueOperation(db, { ...target, kind, input })).id)
  }
  await ended(operationId)
  const asked = { databaseId: id, ownerId: user.id, actor: user.id, origin: 'manual' } as const
  const snapshot = await queueDatabaseSnapshot(db, { ...asked, plans: plansOfMemory(4096) })
  await ended(snapshot.operation_id)
  return {
    command,
    id,
    snapshotId: snapshot.id,
    slotOf: async () =>
      (
        await db('blob_leases as l')
          .join('operations as o', 'o.id', 'l.holder')
          .where({ 'l.subject': 'snapshot/h1', 'o.target_id': id })
          .where('l.expires_at', '>', db.fn.now())
          .first('l.holder')
      )?.holder,
    /** Restores the snapshot; resolves to what the watch read at each step, and in the end. */
    async restore() {
      const read: Record<string, { busy: boolean; status: string | undefined }> = {}
      seen.set(id, async name => {
        read[name] = {
          busy: await operations.isBusy(db, id, 'database'),
          status: (await loadDatabase(db, id))?.status,
        }
      })
      const operation = await command('restore', { snapshotId: snapshot.id })
      return { operation, read, row: (await loadDatabase(db, id))!, host: databases.at(id) }
    },
  }
}

test('a restore leaves the engine to the host watch while it makes its copy, and not while it stops and starts it', async t => {
  const { restore } = await scene()
  const { operation, read, row } = await restore()
  t.is(operation.state, 'success')
  t.deepEqual(read, {
    awaitDatabaseSnapshotPlace: { busy: false, status: 'running' },
    prepareRestore: { busy: false, status: 'running' },
    stopDatabase: { busy: true, status: 'restarting' },
    startDatabase: { busy: true, status: 'restarting' },
    setDatabasePassword: { busy: true, status: 'restarting' },
  })
  t.is(row.status, 'running')
})

test('a restore of a stopped database leaves it exited', async t => {
  const { restore, command } = await scene()
  await command('stop')
  const { operation, read, row } = await restore()
  t.like(operation, { state: 'success', step: operations.changingVersions })
  t.deepEqual(read, {
    awaitDatabaseSnapshotPlace: { busy: false, status: 'exited' },
    prepareRestore: { busy: false, status: 'exited' },
  })
  t.like(row, { status: 'exited', retired_generation: 1 })
})

test.serial(
  'a restore holds a snapshot slot of its host while it makes its copy, and frees it before the switch, also when it fails',
  async t => {
    const { id, command, snapshotId, slotOf } = await scene()
    for (const failing of ['nothing', 'prepareRestore'] as const) {
      const holders: Record<string, string | undefined> = {}
      seen.set(id, async name => {
        holders[name] = await slotOf()
        if (name === failing) throw refusal('SNAPSHOT_CORRUPT', 'It fails.')
      })
      const operation = await command('restore', { snapshotId })
      t.is(operation.state, failing === 'nothing' ? 'success' : 'error')
      t.is(holders.prepareRestore, operation.id)
      t.is(holders.stopDatabase, undefined)
      t.is(await slotOf(), undefined)
    }
  },
)
