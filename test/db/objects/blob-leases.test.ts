import test from 'ava'
import { endBlobLease, renewBlobLease, takeBlobLease } from '../../../db/objects/blob-leases.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('of many at once as many have a place as there are; one that is given back is free for one', async t => {
  const { db } = await database
  const taken = await Promise.all(Array.from({ length: 30 }, () => takeBlobLease(db, 'part/1', 6)))
  const held = taken.filter(lease => lease !== undefined)
  t.deepEqual(held.map(lease => lease.place).sort(), [1, 2, 3, 4, 5, 6])
  t.truthy(await takeBlobLease(db, 'part/2', 6), 'another account has its own')
  await endBlobLease(db, held[3]!)
  const next = await Promise.all(Array.from({ length: 20 }, () => takeBlobLease(db, 'part/1', 6)))
  t.is(next.filter(Boolean).length, 1)
})

test('the place of a killed process is free after its time; who comes back too late does not take it away again', async t => {
  const { db } = await database
  const dead = (await takeBlobLease(db, 'part/3', 1))!
  await renewBlobLease(db, dead)
  t.is(await takeBlobLease(db, 'part/3', 1), undefined)
  await db('blob_leases').where({ subject: 'part/3' }).update({ expires_at: '2000-01-01' })
  const heir = (await takeBlobLease(db, 'part/3', 1))!
  t.not(heir.holder, dead.holder)
  const until = async () => (await db('blob_leases').where({ subject: 'part/3' }).first()).expires_at
  const before = await until()
  await renewBlobLease(db, dead)
  t.deepEqual(await until(), before, 'the heir is not kept alive by it')
  await endBlobLease(db, dead)
  t.is(await takeBlobLease(db, 'part/3', 1), undefined)
  await endBlobLease(db, heir)
  t.truthy(await takeBlobLease(db, 'part/3', 1))
})

test('a place that the database has forgotten is renewed into being', async t => {
  const { db } = await database
  const lease = (await takeBlobLease(db, 'part/4', 1))!
  await db('blob_leases').delete().where({ subject: 'part/4' })
  await renewBlobLease(db, lease)
  t.is(await takeBlobLease(db, 'part/4', 1), undefined)
})

// Alone: it looks at who waits in this database.
test.serial('a place that two take at the same moment is given to the first only', async t => {
  const { db } = await database
  const first = await db.transaction()
  t.truthy(await takeBlobLease(first, 'part/5', 1))
  const second = takeBlobLease(db, 'part/5', 1)
  await comesTrue(async () => {
    const { rows } = await db.raw(
      `select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%blob_leases%'`,
    )
    return rows.length > 0
  })
  await first.commit()
  t.is(await second, undefined)
})
