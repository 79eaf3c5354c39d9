import type { Knex } from 'knex'
import { FairSlots } from '../lib/async/fair-slots.ts'
import { lockedSlots } from '../policy/locked-slots.ts'
import { type Db, transaction } from './database.ts'
import { NoTurn } from './unavailable.ts'

const slots = new WeakMap<Db, FairSlots>()

/** The slots for connections of a pool that wait for what something else has locked, with ids of accounts as subjects. */
export function lockedSlotsOf(db: Db): FairSlots {
  const slotsOfDb = slots.get(db) ?? new FairSlots(lockedSlots(db.client.pool.max))
  slots.set(db, slotsOfDb)
  return slotsOfDb
}

/**
 * As `transaction`, for one that takes locks of an account, such as of its uploads or of names of its objects: however many of an account
 * wait for each other, other accounts find connections. Throws KEEP_CALM (`NoTurn`) when its turn does not come.
 */
export const ownTransaction = <T>(db: Db, ownerId: string, work: (trx: Knex.Transaction) => Promise<T>): Promise<T> =>
  inOwnSlot(db, ownerId, () => transaction(db, work))

/** Runs `work`, which makes the transaction, as `ownTransaction` does. */
export async function inOwnSlot<T>(db: Db, ownerId: string, work: () => Promise<T>): Promise<T> {
  if (db.isTransaction) return work() // it has a connection already
  const leave = await lockedSlotsOf(db).enter(ownerId, db.client.pool.acquireTimeoutMillis)
  if (!leave) throw new NoTurn()
  try {
    return await work()
  } finally {
    leave()
  }
}
