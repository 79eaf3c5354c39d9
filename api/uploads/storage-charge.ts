import type { StorageCharge } from '../../db/objects/objects.ts'
import { GiB } from '../../lib/bytes.ts'
import { CodedError, Refusal } from '../../policy/errors.ts'
import { includedObjects } from '../../policy/objects/store-limits.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'

/** Storage that the caller's plan includes. */
export const includedBytes = ({ plan }: Caller): number => plan.blobGb * GiB

/** How many objects the caller's plan includes. */
export const maxObjects = ({ plan }: Caller): number => includedObjects.always + plan.blobGb * includedObjects.perGb

/** A write that adds nothing needs no room and is allowed in an account that is over its storage. */
const nothing: StorageCharge = { leaseId: 'none', bytes: 0 }

/** Bytes of a write, and of the object that it replaces, as far as known before it: null for a write that may add an object. */
interface Bytes {
  size: number
  replaced: number | null
  /** As in `StorageRequest`. */
  completing?: string
}

/** Runs a write; again with all its bytes reserved if the object that it replaces was deleted meanwhile. Throws STORAGE_QUOTA_EXCEEDED. */
export async function withReservedStorage<T>(
  { quota }: Services,
  caller: Caller,
  { size, replaced, completing }: Bytes,
  write: (charge: StorageCharge) => Promise<T>,
): Promise<T> {
  const limits = {
    ownerId: caller.user.id,
    limit: includedBytes(caller),
    maxObjects: maxObjects(caller),
    completing,
  }
  const adding = () => quota.charging({ ...limits, bytes: size, objects: 1 }, write)
  if (replaced === null) return adding()
  try {
    return await (size <= replaced
      ? write(nothing)
      : quota.charging({ ...limits, bytes: size - replaced, objects: 0 }, write))
  } catch (error) {
    const isShort = error instanceof CodedError && error.code === 'STORAGE_QUOTA_EXCEEDED'
    if (!isShort || replaced === 0) throw error
    return adding()
  }
}

/** What is written grew after room was reserved for it. Nothing was written. */
class Outgrown extends Refusal {}

/** Throws for `retryingOutgrown` when what is written, now locked, has more bytes than when room was reserved for it. */
export function assertReserved(bytes: number, reserved: number): void {
  if (bytes > reserved) throw new Outgrown()
}

const maxAttempts = 3

/** Runs an attempt that reads a size, reserves room for it and writes; again if it grew in between. Throws `failure` after 3 attempts. */
export async function retryingOutgrown<T>(failure: Refusal, attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 0; attempts < maxAttempts; attempts++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof Outgrown)) throw error
    }
  }
  throw failure
}
