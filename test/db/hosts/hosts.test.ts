import test from 'ava'
import { findHost, listHosts, lockCapacities } from '../../../db/hosts/hosts.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('a host counts as unreachable after 5 s without a sign of life, and not before', async t => {
  const { db } = await database
  await rows(db).host('seen', { memoryMb: 1024 })
  // The clock of a transaction stands still.
  await db.transaction(async trx => {
    for (const [unseenMs, reachable] of [
      [4999, true],
      [5001, false],
    ] as const) {
      await trx('hosts').update({ last_seen_at: trx.raw(`now() - interval '${unseenMs} milliseconds'`) })
      t.is((await findHost(trx, 'seen'))?.reachable, reachable, `${unseenMs} ms`)
      t.is((await listHosts(trx))[0]?.reachable, reachable, `${unseenMs} ms`)
      t.is((await lockCapacities(trx, 1024))[0]?.reachable, reachable, `${unseenMs} ms`)
    }
  })
})
