import { type Db, transaction } from '../../db/database.ts'
import { writeReceiptLines } from '../../db/objects/blob-receipts.ts'
import * as segments from '../../db/objects/segments.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import type { ObjectStore } from './port.ts'

const reasons = {
  drawn: 'nothing was ever stored in it',
  stored: 'nothing refers to it any more',
  dying: 'its removal had started before',
} as const

/** Segments that are removed concurrently: most of the time is spent waiting for the store. */
const width = 4

interface Sweep {
  db: Db
  store: ObjectStore
}

/**
 * Removes unreferenced segments and returns their number. Each gets a line in the receipt with the result of the check afterwards. A
 * process that dies in between leaves segments in the state `dying`, with which the next run continues. One that the store fails
 * to delete is tried again later, and stops no other; the first such failure is thrown at the end.
 */
export async function sweepSegments(parts: Sweep, receiptId: string, times: segments.SweepTimes): Promise<number> {
  const sweepable = await segments.listSweepableSegments(parts.db, times)
  const failures: unknown[] = []
  let removed = 0
  await eachConcurrently(sweepable, width, async segment => {
    try {
      if (await removeSegment(parts, receiptId, segment, times)) removed++
    } catch (error) {
      failures.push(error)
    }
  })
  if (failures.length > 0) throw failures[0]
  return removed
}

/** False when it is in use now or was recently, or when another process was faster. */
async function removeSegment(
  { db, store }: Sweep,
  receiptId: string,
  { id, state, size }: segments.SweepableSegment,
  times: segments.SweepTimes,
): Promise<boolean> {
  if (!(await segments.markOverdueSegmentForDeletion(db, id, times))) return false
  try {
    await store.delete(id)
    if (await store.head(id)) throw new Error(`The object store reported the deletion of ${id} but still has it.`)
  } catch (error) {
    await segments.postponeDeletion(db, id, times.retrySeconds)
    throw error
  }
  const line = { ownerId: null, subject: id, why: reasons[state], bytes: size ?? 0, proof: 'HEAD: absent' }
  return transaction(db, async trx => {
    const removed = await segments.deleteSegmentRow(trx, id)
    if (removed) await writeReceiptLines(trx, receiptId, [line])
    return removed
  })
}
