import type { Charge } from '../db/objects.ts'
import type { Caller } from './authenticate.ts'
import type { Parts } from './parts.ts'

/** Storage that the caller's plan includes. */
export const includedBytes = ({ plan }: Caller): number => plan.blobGb * 1024 ** 3

/** What adds nothing needs no room, and may happen in an account that is over its storage. */
const nothing: Charge = { leaseId: 'none', bytes: 0 }

/** Does a write that may add so many bytes to the caller's storage. Throws STORAGE_QUOTA_EXCEEDED. */
export async function charging<T>(
  { quota }: Parts,
  caller: Caller,
  bytes: number,
  write: (charge: Charge) => Promise<T>,
): Promise<T> {
  if (bytes <= 0) return write(nothing)
  return quota.charging({ ownerId: caller.user.id, bytes, limit: includedBytes(caller) }, write)
}
