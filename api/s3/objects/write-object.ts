import { putObject } from '../../../db/objects/object-puts.ts'
import { findObject, type NewObject, type StorageCharge, type StoredObject } from '../../../db/objects/objects.ts'
import { tooManyObjects } from '../../../db/objects/storage-quota.ts'
import { readHeld } from '../../../db/objects/uploads/upload-room.ts'
import { MiB } from '../../../lib/bytes.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertPaid } from '../../../policy/objects/blob-options.ts'
import { type ObjectName, objectId, unavailableStorage } from '../../../policy/objects/object-names.ts'
import type { WriteConditions } from '../../../policy/s3/s3-conditions.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { WrittenHeaders } from '../../../policy/s3/s3-headers.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { expiryOf, type WriteTerms } from '../../../policy/s3/s3-write-terms.ts'
import { entryOf } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'
import type { HeldLease } from '../../uploads/blob-leases.ts'
import { includedBytes, maxObjects, withReservedStorage } from '../../uploads/storage-charge.ts'
import type { BodyRules } from '../../uploads/uploads.ts'
import type { ReceivedBody } from '../bodies/receive.ts'
import { objectOf, type S3Call } from '../operation.ts'

/** Throws AccessDenied unless the account may write objects: legacy ones cannot be written by anyone. */
export function assertMayWrite({ caller, stored }: Pick<S3Call, 'caller' | 'stored'>): void {
  assertPaid(caller.planName)
  if (stored === 'legacy')
    throw new S3Error('AccessDenied', 'Objects of the bucket legacy can be read, listed and deleted.')
}

/** Bytes of one body, by the wire and by the rule. */
export const bodyRules = ({ ownerId, bucket }: ObjectName, { maxBytes }: WriteTerms): BodyRules => ({
  ownerId,
  maxBytes: Math.min(maxBytes, s3Limits.putBytes),
  tooLarge: 'FILE_TOO_LARGE',
  unstored: unavailableStorage(bucket),
})

/** Reading a smaller body costs less than checking whether there is room; every object is counted exactly when it is written. */
const checkedFromBytes = MiB

/** Refuses a body that cannot fit before it is sent, even if it replaced `name`. */
export async function assertRoom(bytes: number, name: ObjectName, caller: Caller, { db }: Services): Promise<void> {
  if (bytes <= checkedFromBytes) return
  const held = await readHeld(db, caller.user.id)
  const isFull = held.objects >= maxObjects(caller)
  if (held.bytes + bytes <= includedBytes(caller) && !isFull) return
  const replaced = await findObject(db, name)
  if (held.bytes + bytes - (replaced?.size ?? 0) > includedBytes(caller)) throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  if (isFull && !replaced) throw tooManyObjects()
}

/** A write whose body has arrived. */
export interface ObjectWrite {
  call: Pick<S3Call, 'caller' | 'exchange' | 'stored' | 'key'>
  /** For the audit entry. */
  operation: string
  received: ReceivedBody
  headers: WrittenHeaders
  terms: WriteTerms
  conditions: WriteConditions
  /** The slot of the upload; its end is a part of the commit. */
  held: HeldLease | null
}

/** Makes an arrived body an object, in one commit with its usage, the end of its slot and its audit entry. */
export async function writeObject(write: ObjectWrite, services: Services): Promise<StoredObject> {
  const { call, operation, received, headers, terms, conditions, held } = write
  const { caller, exchange } = call
  const { segmentId, bytes, ...body } = received.arrived
  const name = objectOf(call)
  const checksum = received.checksum && ({ ...received.checksum, type: 'FULL_OBJECT' } as const)
  const object: NewObject = {
    ...name,
    contentType: headers.contentType,
    etag: body.md5,
    sha256: body.sha256,
    cacheControl: terms.cacheControl,
    contentDisposition: headers.contentDisposition,
    metadata: headers.metadata,
    s3: { ...headers.s3, ...(checksum && { checksum }) },
    expiresAt: expiryOf(terms),
  }
  const part = { segmentId, length: body.size, body, bytes, checksum: checksum?.value }
  exchange.resource = objectId(name)
  const ending = { lease: held?.lease, entry: entryOf(`s3.${operation}`, { caller }, exchange, 'success') }
  const stored = await reservingFor(body.size, name, caller, services, charge =>
    putObject(services.db, object, part, { ...conditions, charge, ending }),
  )
  if (held) held.isEnded = true
  exchange.recorded = true
  return stored
}

/**
 * Runs a write with all its bytes reserved. If they do not fit, only what exceeds the object that it replaces is reserved, which is looked
 * up only then, because most writes do not need it. Throws QuotaExceeded.
 */
export async function reservingFor<T>(
  size: number,
  name: ObjectName,
  caller: Caller,
  services: Services,
  write: (charge: StorageCharge) => Promise<T>,
  completing?: string,
): Promise<T> {
  const reserving = (replaced: number | null) =>
    withReservedStorage(services, caller, { size, replaced, completing }, write)
  try {
    return await reserving(null)
  } catch (error) {
    const replaced = isShort(error) ? await findObject(services.db, name) : undefined
    if (!replaced) throw error
    return reserving(replaced.size)
  }
}

/** Whether a write failed because the storage of the plan is used up. */
export const isShort = (error: unknown): boolean =>
  error instanceof CodedError && error.code === 'STORAGE_QUOTA_EXCEEDED'
