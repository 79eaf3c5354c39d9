import test from 'ava'
import { type DatabaseSnapshotOptions, databaseSnapshotActivities } from '../../../activities/database-snapshots.ts'
import type { HostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { snapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { transaction } from '../../../db/database.ts'
import { queueDatabaseSnapshot } from '../../../db/databases/database-snapshots.ts'
import { reserveVolumes } from '../../../db/databases/database-volumes.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { releaseSnapshotSlot } from '../../../db/snapshots/snapshot-slots.ts'
import { NoSpaceLeft } from '../../../lib/folders/no-space-left.ts'
import { newId } from '../../../policy/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { ownFolder } from '../../kit/folders.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { plansOfMemory, rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('between two attempts of a snapshot nothing else gets the room that it needs', async t => {
  const { db } = await database
  const make = rows(db)
  const hostId = 'attempts'
  await make.databaseHost(hostId)
  const volumes = folderVolumes(ownFolder(t))
  volumes.usedBytes = async name => (/-1$/.test(name) ? 50 : 0)
  const looks = { count: 0 }
  volumes.demandRoom = async bytes => {
    looks.count++
    if (bytes > 150) throw new NoSpaceLeft('Full.')
  }
  const steps = databaseSnapshotActivities({
    ...{ db, volumes, engine: new FakeContainerHost(), locks: appLocks(), traits: { id: hostId }, diskMb: () => 100 },
    ...{ sharedUid: process.getuid?.() ?? 0, hosted: { traitsOf: () => ({}) } as unknown as HostedEngines },
    ...{
      slots: snapshotSlots(db, { lookEveryMs: 5 }),
      snapshots: snapshots(),
      store: await filesystemStore(ownFolder(t)),
    },
    contentsOf: () => {
      throw new Error('The engine has no connection left.')
    },
  } as unknown as DatabaseSnapshotOptions)

  async function snapshot() {
    const { id: ownerId } = await make.user()
    const { database: row, operationId: creation } = await make.database(ownerId)
    await db('operations').where({ id: creation }).update({ state: 'success' })
    const asked = {
      databaseId: row.id,
      ownerId,
      actor: ownerId,
      origin: 'manual',
      plans: plansOfMemory(10_000),
    } as const
    const { operation_id: operationId } = await queueDatabaseSnapshot(db, asked)
    await transaction(db, trx => reserveVolumes(trx, operationId, row.id))
    const run = newId()
    await claimNextOperationFor(db, { type: 'database', id: row.id }, { run, step: 1 }, [])
    const input = { databaseId: row.id, operationId, ownerId }
    return {
      operationId,
      waits: () => asActivity({ run, step: 2 }, () => steps.awaitDatabaseSnapshotPlace(input)),
      attempt: () => asActivity({ run, step: 2 }, () => steps.takeDatabaseSnapshot(input)),
    }
  }

  const [first, second] = [await snapshot(), await snapshot()]
  await first.waits()
  await t.throwsAsync(first.attempt(), { message: /no connection left/ })
  let isServed = false
  const before = looks.count
  const waits = second.waits().then(() => {
    isServed = true
  })
  await comesTrue(async () => isServed || looks.count > before)
  await t.throwsAsync(first.attempt(), { message: /no connection left/ })
  t.false(isServed)
  await releaseSnapshotSlot(db, hostId, first.operationId)
  await waits
  t.true(isServed)
})
