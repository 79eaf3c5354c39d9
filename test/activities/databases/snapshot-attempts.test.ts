import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { type DatabaseSnapshotOptions, databaseSnapshotActivities } from '../../../activities/database-snapshots.ts'
import type { DatabaseContents } from '../../../activities/databases/contents.ts'
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
const hostId = 'attempts'

type Host = Pick<DatabaseSnapshotOptions, 'volumes' | 'contentsOf'> & { engine?: FakeContainerHost }

/** A host that takes snapshots with these parts. */
async function scene(t: ExecutionContext, { volumes, contentsOf, engine = new FakeContainerHost() }: Host) {
  const { db } = await database
  const make = rows(db)
  await make.databaseHost(hostId)
  await db('blob_leases').delete()
  const folders = ownFolder(t)
  const hosted = {
    traitsOf: () => ({}),
    foldersOf: () => ({ data: folders, settings: folders, run: folders }),
    locally: (_: unknown, work: (local: unknown) => unknown) => work({}),
  }
  const steps = databaseSnapshotActivities({
    ...{ db, volumes, engine, locks: appLocks(), traits: { id: hostId }, diskMb: () => 100, contentsOf },
    ...{ sharedUid: process.getuid?.() ?? 0, hosted: hosted as unknown as HostedEngines },
    ...{
      slots: snapshotSlots(db, { lookEveryMs: 5 }),
      snapshots: snapshots(),
      store: await filesystemStore(ownFolder(t)),
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
      attempt: (how = {}) => asActivity({ run, step: 2 }, () => steps.takeDatabaseSnapshot({ ...input, ...how })),
    }
  }
  return { db, snapshot }
}

test.serial('between two attempts of a snapshot nothing else gets the room that it needs', async t => {
  const volumes = folderVolumes(ownFolder(t))
  volumes.usedBytes = async name => (/-1$/.test(name) ? 50 : 0)
  const looks = { count: 0 }
  volumes.demandRoom = async bytes => {
    looks.count++
    if (bytes > 150) throw new NoSpaceLeft('Full.')
  }
  const contentsOf = () => {
    throw new Error('The engine has no connection left.')
  }
  const { db, snapshot } = await scene(t, { volumes, contentsOf })

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

test.serial('a container that reads a complete dump ends before the dump is made anew for its proof', async t => {
  let end = () => {}
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  const engine = Object.assign(new FakeContainerHost(), {
    inspect: async () => ({ running: true }),
    async runToEnd() {
      await ended
      return { exitCode: 0, oom: false }
    },
  }) as unknown as FakeContainerHost
  const found: boolean[] = []
  const contents: Partial<DatabaseContents> = {
    async dump(_, job) {
      const file = join(job.folder, '0.dump')
      writeFileSync(file, 'all')
      const reads = job.run(['pg_restore'])
      job.heard?.complete()
      await reads
      found.push(existsSync(file))
      throw new Error('that is enough')
    },
  }
  const contentsOf = () => contents as DatabaseContents
  const volumes = folderVolumes(ownFolder(t))
  const { db, snapshot } = await scene(t, { volumes, contentsOf, engine })
  const { operationId, attempt } = await snapshot()
  const taken = t.throwsAsync(attempt({ takesFreeSlot: true }), { message: /that is enough/ })
  const step = async () => (await db('operations').where({ id: operationId }).first()).step
  await comesTrue(async () => /^restoring the snapshot/.test(await step()))
  await sleep(50)
  end()
  await taken
  t.deepEqual(found, [true])
})
