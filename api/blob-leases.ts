import { blobLeaseSeconds, endBlobLease, renewBlobLease, takeBlobLease } from '../db/blob-leases.ts'
import { ApiError, type ErrorCode } from '../policy/errors.ts'
import type { Parts } from './parts.ts'

export interface Places {
  /** Who has them: 'part/<account>', 'upload/<account>'. */
  subject: string
  most: number
  /** What is said when all are taken. */
  full: ErrorCode
}

/** Does `work` in one of the places of a subject, which is kept for as long as it takes and given back before the answer. */
export async function inPlace<T>({ db }: Parts, { subject, most, full }: Places, work: () => Promise<T>): Promise<T> {
  const lease = await takeBlobLease(db, subject, most)
  if (!lease) throw new ApiError(full, undefined, 1)
  const renewal = setInterval(() => renewBlobLease(db, lease).catch(() => {}), (blobLeaseSeconds / 3) * 1000)
  try {
    return await work()
  } finally {
    clearInterval(renewal)
    // What the database does not hear of ends by itself.
    await endBlobLease(db, lease).catch(() => {})
  }
}
