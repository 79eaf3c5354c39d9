import { ApiError } from '../errors.ts'
import { assertOption, assertPaid } from './blob-options.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from './object-expiry.ts'
import { isKey, keyParts, type ObjectName, objectKey } from './object-names.ts'
import { fitsMetadata, metadataForm } from './uploads/upload-fields.ts'

/** Requested changes of an object (contract 7.18). What is left out stays; null removes. */
export interface ObjectUpdate {
  private?: boolean
  expire?: string | null
  cache_control?: string | null
  disposition?: 'inline' | 'attachment' | null
  metadata?: Record<string, string | null> | null
}

/** What the API document tells of a change of metadata. */
export const metadataChangeShown = {
  type: 'object',
  description: 'What is null goes, what is not named stays; at most 5 texts and 512 bytes may be left.',
  propertyNames: { minLength: 1, pattern: metadataForm },
  additionalProperties: { type: ['string', 'null'], pattern: metadataForm },
}

/** Whether an update gives an object another id: visibility and expiry are told by it. */
const renames = (update: ObjectUpdate): boolean => update.private !== undefined || update.expire !== undefined

/** Throws PERMISSION_DENIED and UPGRADE_REQUIRED for what the plan lacks, OBJECT_IS_LEGACY for headers of what stays where it is. */
export function assertMayUpdate(name: ObjectName, update: ObjectUpdate, planName: string): void {
  const { expire, cache_control, metadata } = update
  if (update.private === false || expire !== undefined) assertPaid(planName)
  if (expire && (durationSeconds(expire) ?? 0) < shortExpirySeconds) assertOption(planName, 'short-expiry')
  if (cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (Object.values(metadata ?? {}).some(text => text !== null)) assertOption(planName, 'metadata')
  if (name.bucket === 'legacy' && !renames(update)) throw new ApiError('OBJECT_IS_LEGACY')
}

/** When the object ends; null for never, undefined for when it did before. */
export function updatedExpiry({ expire }: ObjectUpdate, now: Date): Date | null | undefined {
  if (expire === undefined || expire === null) return expire
  return expiryAfter(durationSeconds(expire) ?? 0, now)
}

/** The name that an object has afterwards. A legacy one whose id changes moves into the storage of today. Throws INVALID_OBJECT for one too long. */
export function updatedName(name: ObjectName, update: ObjectUpdate, expiresAt: Date | null | undefined): ObjectName {
  if (!renames(update)) return name
  const hidden = update.private ?? name.bucket === 'private'
  const parts = expiresAt === undefined ? undefined : keyParts(name.key)
  const key = parts ? objectKey({ ...parts, expiresAt }) : name.key
  if (!isKey(key)) throw new ApiError('INVALID_OBJECT', 'The id would be too long.')
  return { ownerId: name.ownerId, bucket: hidden ? 'private' : 'public', key }
}

/** Throws INVALID_OBJECT_METADATA when more is left than an object takes. */
export function updatedMetadata(
  before: Record<string, string>,
  { metadata }: ObjectUpdate,
): Record<string, string> | undefined {
  if (metadata === undefined) return undefined
  if (metadata === null) return {}
  const kept = Object.entries({ ...before, ...metadata }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  )
  const after = Object.fromEntries(kept)
  if (!fitsMetadata(after)) throw new ApiError('INVALID_OBJECT_METADATA')
  return after
}
