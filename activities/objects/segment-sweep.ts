import { type Db, transaction } from '../../db/database.ts'
import { writeReceiptLines } from '../../db/objects/blob-receipts.ts'
import * as segments from '../../db/objects/segments.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import type { ObjectStore } from './port.ts'

const reasons = {
  drawn: 'nothing was ever made of it',
  stored: 'nobody refers to it any more',
  dying: 'its removal was begun before',
} as const

/** Segments that are removed concurrently: most of the time is the store's. */
const width = 4

interface Sweep {
  db: Db
  store: ObjectStore
}

/**
 * Removes bodies that nobody refers to, each with a line of the receipt that says what the look afterwards found; how many. Whoever
 * dies in between leaves bodies that are told apart as dying, and the next run goes on with them. One that the store does not give
 * up keeps none of the others; the first such failure is thrown at the end.
 */
export async function sweepSegments(parts: Sweep, receiptId: string, patience: segments.SweepTimes): Promise<number> {
  const bodies = await segments.listSweepableSegments(parts.db, patience)
  const failures: unknown[] = []
  let removed = 0
  await eachConcurrently(bodies, width, async body => {
    try {
      if (await removeBody(parts, receiptId, body, patience)) removed++
    } catch (error) {
      failures.push(error)
    }
  })
  if (failures.length > 0) throw failures[0]
  return removed
}

/** False when it is in use by now or was a moment ago, or another process was faster. */
async function removeBody(
  { db, store }: Sweep,
  receiptId: string,
  { id, state, size }: segments.SweepableSegment,
  patience: segments.SweepTimes,
): Promise<boolean> {
  if (!(await segments.markOverdueSegmentForDeletion(db, id, patience))) return false
  await store.delete(id)
  if (await store.head(id)) throw new Error(`The store says that ${id} is deleted, and still has it.`)
  const line = { ownerId: null, subject: id, why: reasons[state], bytes: size ?? 0, proof: 'HEAD: absent' }
  return transaction(db, async trx => {
    const mine = await segments.deleteSegmentRow(trx, id)
    if (mine) await writeReceiptLines(trx, receiptId, [line])
    return mine
  })
}
