import test from 'ava'
import { endSlotLease, renewSlotLease, takeSlotLease } from '../../db/slot-leases.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

test('concurrent callers get as many leases as there are slots; a slot that is freed goes to one of them', async t => {
  const { db } = await database
  const leases = await Promise.all(Array.from({ length: 30 }, () => takeSlotLease(db, 'part/1', 6)))
  const held = leases.filter(lease => lease !== undefined)
  t.deepEqual(held.map(lease => lease.place).sort(), [1, 2, 3, 4, 5, 6])
  t.truthy(await takeSlotLease(db, 'part/2', 6), 'another account has its own')
  await endSlotLease(db, held[3]!)
  const next = await Promise.all(Array.from({ length: 20 }, () => takeSlotLease(db, 'part/1', 6)))
  t.is(next.filter(Boolean).length, 1)
})

test('the slot of a killed process is free after its lease expires; its late renewal does not take the slot back', async t => {
  const { db } = await database
  const expired = (await takeSlotLease(db, 'part/3', 1))!
  await renewSlotLease(db, expired)
  t.is(await takeSlotLease(db, 'part/3', 1), undefined)
  await db('blob_leases').where({ subject: 'part/3' }).update({ expires_at: '2000-01-01' })
  const next = (await takeSlotLease(db, 'part/3', 1))!
  t.not(next.holder, expired.holder)
  const expiresAt = async () => (await db('blob_leases').where({ subject: 'part/3' }).first()).expires_at
  const before = await expiresAt()
  await renewSlotLease(db, expired)
  t.deepEqual(await expiresAt(), before, 'it does not renew the lease of the next holder')
  await endSlotLease(db, expired)
  t.is(await takeSlotLease(db, 'part/3', 1), undefined)
  await endSlotLease(db, next)
  t.truthy(await takeSlotLease(db, 'part/3', 1))
})

test('a renewal inserts a lease again that the database has lost', async t => {
  const { db } = await database
  const lease = (await takeSlotLease(db, 'part/4', 1))!
  await db('blob_leases').delete().where({ subject: 'part/4' })
  await renewSlotLease(db, lease)
  t.is(await takeSlotLease(db, 'part/4', 1), undefined)
})

// Serial: it looks at the statements that wait in this database.
test.serial('of two concurrent transactions that take a slot only the first gets it', async t => {
  const { db } = await database
  const first = await db.transaction()
  t.truthy(await takeSlotLease(first, 'part/5', 1))
  const second = takeSlotLease(db, 'part/5', 1)
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
