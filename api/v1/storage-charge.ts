import type { StorageCharge } from '../../db/objects/objects.ts'
import { GiB } from '../../lib/bytes.ts'
import { ApiError } from '../../policy/errors.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'

/** Storage that the caller's plan includes. */
export const includedBytes = ({ plan }: Caller): number => plan.blobGb * GiB

/** What adds nothing needs no room, and may happen in an account that is over its storage. */
const nothing: StorageCharge = { leaseId: 'none', bytes: 0 }

/** What a write brings, and what lay in its place when it was looked at: bytes. */
interface Bytes {
  size: number
  replaced: number
}

/** Does a write, once more with all its bytes reserved when what it replaces went meanwhile. Throws STORAGE_QUOTA_EXCEEDED. */
export async function withReservedStorage<T>(
  { quota }: Services,
  caller: Caller,
  { size, replaced }: Bytes,
  write: (charge: StorageCharge) => Promise<T>,
): Promise<T> {
  const reserving = (bytes: number) =>
    quota.charging({ ownerId: caller.user.id, bytes, limit: includedBytes(caller) }, write)
  try {
    return await (size <= replaced ? write(nothing) : reserving(size - replaced))
  } catch (error) {
    const isShort = error instanceof ApiError && error.code === 'STORAGE_QUOTA_EXCEEDED'
    if (!isShort || replaced === 0) throw error
    return reserving(size)
  }
}
