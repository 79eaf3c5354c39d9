import test from 'ava'
import { findHost, listHosts, lockCapacities, recordHostSeen, setDraining } from '../../../db/hosts/hosts.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test.serial('a host counts as unreachable after 5 s without a sign of life, and not before', async t => {
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

test.serial('a placement that is not committed delays no sign of life of a host, and a drain waits for it', async t => {
  const { db } = await database
  await rows(db).host('placed', { memoryMb: 1024 })
  await db('hosts').where({ id: 'placed' }).update({ last_seen_at: '2000-01-01' })
  const placement = await db.transaction()
  let drained: Promise<boolean>
  try {
    await lockCapacities(placement, 1024)
    await recordHostSeen(db, 'placed')
    t.true((await findHost(db, 'placed'))?.reachable)
    drained = db.transaction(trx => setDraining(trx, 'placed', true))
    const waiting = () => db('pg_stat_activity').where({ wait_event_type: 'Lock', wait_event: 'advisory' })
    await comesTrue(async () => (await waiting()).length === 1, 10)
    t.false((await findHost(db, 'placed'))?.draining)
  } finally {
    await placement.commit()
  }
  t.true(await drained)
})
