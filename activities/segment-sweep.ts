import { writeLines } from '../db/blob-receipts.ts'
import { type Db, transaction } from '../db/database.ts'
import * as segments from '../db/segments.ts'
import type { UpkeepPatience } from '../policy/blob-upkeep.ts'
import type { ObjectStore } from './object-store.ts'

const reasons = {
  drawn: 'nothing was ever made of it',
  stored: 'nobody refers to it any more',
  dying: 'its removal was begun before',
} as const

/**
 * Removes bodies that nobody refers to, each with a line of the receipt that says what the look afterwards found; how many. Whoever
 * dies in between leaves bodies that are told apart as dying, and the next run goes on with them.
 */
export async function sweepSegments(
  { db, store }: { db: Db; store: ObjectStore },
  receiptId: string,
  patience: Omit<UpkeepPatience, 'idleSeconds'>,
): Promise<number> {
  let removed = 0
  for (const { id, state, size } of await segments.sweepable(db, patience)) {
    if (!(await segments.condemn(db, id))) continue
    await store.delete(id)
    if (await store.head(id)) throw new Error(`The store says that ${id} is deleted, and still has it.`)
    const mine = await transaction(db, async trx => {
      if (!(await segments.forget(trx, id))) return false
      const why = reasons[state]
      await writeLines(trx, receiptId, [{ ownerId: null, subject: id, why, bytes: size ?? 0, proof: 'HEAD: absent' }])
      return true
    })
    if (mine) removed++
  }
  return removed
}
