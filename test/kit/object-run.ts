import { randomInt } from 'node:crypto'
import type { ExecutionContext } from 'ava'
import { openDatabase } from '../../db/database.ts'
import { Schedules } from './object-schedules.ts'
import { rows } from './rows.ts'

/** Accounts whose schedules run side by side. */
const accounts = 4

/** Runs so many random schedules and asserts that each is explained and nothing is left at the end. The seed is told. */
export async function runSchedules(
  t: ExecutionContext,
  url: string,
  count: number,
  seed = randomInt(2 ** 31),
): Promise<void> {
  t.log(`${count} schedules of seed ${seed}`)
  const db = openDatabase({ url, pool: accounts * 4, applicationName: 'berth-test' })
  try {
    const runs = Array.from({ length: accounts }, async (_, n) => {
      const { id } = await rows(db).user()
      const schedules = new Schedules(db, id, seed + n)
      for (let run = 0; run < count / accounts; run++) await schedules.run()
      t.deepEqual(await schedules.end(), [])
    })
    await Promise.all(runs)
  } finally {
    await db.destroy()
  }
}
