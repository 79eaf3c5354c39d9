import type { Db } from '../../db/database.ts'
import * as segments from '../../db/objects/segments.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'

/** Until a segment is recorded, its allocation is held at this pace, so that the sweep spares it. */
const renewMs = 5 * 60_000

/**
 * Calls `work` with a new segment of the object store. That of work that fails is left to the sweep, and so is, 2 hours later, that of a
 * process that was killed: a copy of many gigabytes. `isSmall`: as late as all that a restored database may only know as allocated.
 */
export async function inNewSegment<T>(
  db: Db,
  work: (segmentId: string) => Promise<T>,
  { isSmall = false } = {},
): Promise<T> {
  const [allocate, renew] = isSmall
    ? [segments.allocateSegment, segments.renewAllocation]
    : [segments.allocateHeldSegment, segments.holdAllocation]
  const segmentId = await allocate(db)
  const fresh = setInterval(
    () => void renew(db, segmentId).catch(ignoreError('the next interval tries again')),
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
