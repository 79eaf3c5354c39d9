import { randomInt } from 'node:crypto'
import type { ExecutionContext } from 'ava'
import { bodiesIn, filesystemStore } from '../../../activities/objects/filesystem.ts'
import { removeThrowAway, throwAwayFolder } from '../../../cli/test/test-postgres.ts'
import { openDatabase } from '../../../db/database.ts'
import { StorageQuota } from '../../../db/objects/storage-quota.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { rows } from '../rows/rows.ts'
import { ObjectActs } from './object-acts.ts'
import { Schedules } from './object-schedules.ts'
import { Sweeps } from './object-sweeps.ts'
import { linesBySubject } from './upkeep.ts'

/** Accounts whose schedules run concurrently, each in both processes. */
const accounts = 4

/** Runs a number of random schedules and asserts that each is explained and nothing is left at the end. Logs the seed. */
export async function runSchedules(
  t: ExecutionContext,
  url: string,
  count: number,
  seed = randomInt(2 ** 31),
): Promise<void> {
  t.log(`${count} schedules of seed ${seed}`)
  // Small parts, so that an account has room for several objects in parts.
  Object.assign(s3Limits, { minPartBytes: 1 })
  const folder = throwAwayFolder()
  const store = await filesystemStore(folder)
  const processes = [1, 2].map(() => {
    const db = openDatabase({ url, pool: accounts * 3, applicationName: 'berth-test' })
    return { db, quota: new StorageQuota(db) }
  })
  const [{ db }] = processes as [(typeof processes)[0]]
  const sweeps = new Sweeps()
  try {
    const runs = Array.from({ length: accounts }, async (_, n) => {
      const { id } = await rows(db).user()
      const schedules = new Schedules(new ObjectActs(id, store, sweeps), processes, seed + n)
      for (let run = 0; run < count / accounts; run++) await schedules.run()
      const audit = await db('audit').where({ account_id: id, action: 'objects.upload', result: 'success' })
      t.is(audit.length, schedules.uploaded, 'every upload that was answered is on record, and no other')
      return schedules
    })
    for (const schedules of await Promise.all(runs)) {
      t.deepEqual(await schedules.end(), [])
      const lines = await linesBySubject(db, [...schedules.used])
      t.deepEqual(
        [...schedules.used].filter(id => lines.get(id) !== 1),
        [],
        'the removal of every body that was used is reported once',
      )
    }
    for await (const ids of bodiesIn(folder)) t.deepEqual(ids, [], 'the store has nothing that nobody knows')
  } finally {
    for (const process of processes) {
      await process.quota.close()
      await process.db.destroy()
    }
    removeThrowAway(folder)
  }
}
