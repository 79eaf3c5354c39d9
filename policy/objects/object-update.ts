import { CodedError } from '../errors.ts'
import { assertOption, assertPaid } from './blob-options.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from './object-expiry.ts'
import { isKey, keyParts, keyWithEnd, type ObjectName } from './object-names.ts'
import { fitsMetadata, metadataForm } from './uploads/upload-fields.ts'

/** Requested changes of an object (contract 7.18). What is left out stays; null removes. */
export interface ObjectUpdate {
  private?: boolean
  expire?: string | null
  cache_control?: string | null
  disposition?: 'inline' | 'attachment' | null
  metadata?: Record<string, string | null> | null
}

/** A change of metadata in the OpenAPI document. */
export const metadataChangeShown = {
  type: 'object',
  description: 'null deletes an entry; entries that are not named stay. At most 5 entries and 512 bytes may remain.',
  propertyNames: { minLength: 1, pattern: metadataForm },
  additionalProperties: { type: ['string', 'null'], pattern: metadataForm },
}

/** Whether an update changes an object's id, which contains visibility and expiry. */
const renames = (update: ObjectUpdate): boolean => update.private !== undefined || update.expire !== undefined

/** Throws PERMISSION_DENIED and UPGRADE_REQUIRED for what the plan lacks. */
export function assertMayUpdate(update: ObjectUpdate, planName: string): void {
  const { expire, cache_control, metadata } = update
  if (update.private === false || expire !== undefined) assertPaid(planName)
  if (expire && (durationSeconds(expire) ?? 0) < shortExpirySeconds) assertOption(planName, 'short-expiry')
  if (cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (Object.values(metadata ?? {}).some(text => text !== null)) assertOption(planName, 'metadata')
}

/** The new expiry; null = never, undefined = unchanged. */
export function updatedExpiry({ expire }: ObjectUpdate, now: Date): Date | null | undefined {
  if (expire === undefined || expire === null) return expire
  return expiryAfter(durationSeconds(expire) ?? 0, now)
}

/**
 * The name after the update of an object that ends at `before`. A legacy object whose id changes moves to the current layout. Whether the
 * object may have the name is checked by `assertUpdatedName`.
 */
export function updatedName(
  name: ObjectName,
  update: ObjectUpdate,
  before: Date | null,
  after: Date | null | undefined,
): ObjectName {
  if (!renames(update)) return name
  const hidden = update.private ?? name.bucket === 'private'
  const key = after === undefined ? name.key : keyWithEnd(name.key, before, after)
  return { ownerId: name.ownerId, bucket: hidden ? 'private' : 'public', key }
}

/** The two names that an update can lead to: only the object itself shows whether the suffix of its name is its end. */
export function possibleNames(name: ObjectName, update: ObjectUpdate, after: Date | null | undefined): ObjectName[] {
  return [null, keyParts(name.key)?.expiresAt ?? null].map(before => updatedName(name, update, before, after))
}

/** Throws OBJECT_IS_LEGACY for a change of headers only, and INVALID_OBJECT for a name that is too long. */
export function assertUpdatedName({ bucket, key }: ObjectName): void {
  if (bucket === 'legacy') throw new CodedError('OBJECT_IS_LEGACY')
  if (!isKey(key)) throw new CodedError('INVALID_OBJECT', 'The id would be too long.')
}

/** The metadata after the update. Throws INVALID_OBJECT_METADATA when something is added and it exceeds the limits of an object. */
export function updatedMetadata(
  before: Record<string, string>,
  { metadata }: ObjectUpdate,
): Record<string, string> | undefined {
  if (metadata === undefined) return undefined
  if (metadata === null) return {}
  const entries = Object.entries({ ...before, ...metadata }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  )
  const after = Object.fromEntries(entries)
  const adds = Object.values(metadata).some(text => text !== null)
  // S3 stores more than an object of this wire may have: removing a part of it is allowed.
  if (adds && !fitsMetadata(after)) throw new CodedError('INVALID_OBJECT_METADATA')
  return after
}
