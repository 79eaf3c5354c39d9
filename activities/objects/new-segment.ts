import type { Db } from '../../db/database.ts'
import * as segments from '../../db/objects/segments.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'

/** Until a segment is recorded, its allocation is renewed at this pace, so that the sweep spares it. */
const renewMs = 5 * 60_000

/** Calls `work` with a new segment of the object store. That of work that fails is left to the sweep. */
export async function inNewSegment<T>(db: Db, work: (segmentId: string) => Promise<T>): Promise<T> {
  const segmentId = await segments.allocateSegment(db)
  const fresh = setInterval(
    () => void segments.renewAllocation(db, segmentId).catch(ignoreError('the next interval tries again')),
    renewMs,
  )
  try {
    return await work(segmentId)
  } catch (error) {
    await segments.markSegmentForDeletion(db, segmentId).catch(ignoreError('the sweep finds it by its age'))
    throw error
  } finally {
    clearInterval(fresh)
  }
}
