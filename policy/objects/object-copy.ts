import { ApiError } from '../errors.ts'
import { assertOption } from './blob-options.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from './object-expiry.ts'
import { keyParts, newRandomPart, type ObjectName, objectKey } from './object-names.ts'
import { contentTypeOf } from './object-types.ts'
import { assertNotBlocked, nameWithType } from './uploads/uploaded-file.ts'

/** Where a copy goes (contract 7.19), as far as the caller named it. */
export interface Destination {
  name: string
  prefix?: string
  private?: boolean
  expire?: string | null
  security_hash?: boolean
}

/** What a copy will be. */
export interface CopyTarget {
  name: ObjectName
  expiresAt: Date | null
  /** Of the extension that the name brings to a source without one; undefined where there is none to bring. */
  contentType?: string
}

/**
 * Throws UPGRADE_REQUIRED for what an upload of the plan could not have: an expiry below 7 days that is asked for, and the options that
 * a copy takes along. A move takes its own along, on any plan, as a step to a lower one takes none away.
 */
export function assertMayCopy(
  { expire }: Pick<Destination, 'expire'>,
  source: { cache_control: string | null; metadata: Record<string, string> },
  { planName, move }: { planName: string; move: boolean },
): void {
  if (expire && (durationSeconds(expire) ?? 0) < shortExpirySeconds) assertOption(planName, 'short-expiry')
  if (move) return
  if (source.cache_control === 'no-cache') assertOption(planName, 'no-cache')
  if (Object.keys(source.metadata).length > 0) assertOption(planName, 'metadata')
}

/**
 * The name and end of a copy: it keeps extension, and what was not said of visibility and expiry. A private one has a random part.
 * A source without extension takes the one that the name ends in, as an upload of that name does.
 * Throws INVALID_OBJECT_SECURITY_HASH where a private one shall have none, SAME_OBJECT, and INVALID_OBJECT_NAME or BLOCKED_FILE_TYPE
 * for an extension that the name brings to a source without one.
 */
export function copyTarget(
  source: ObjectName,
  sourceEnds: Date | null,
  { name, prefix = '', private: hidden = source.bucket === 'private', expire, security_hash }: Destination,
  now: Date,
): CopyTarget {
  if (hidden && security_hash === false) throw new ApiError('INVALID_OBJECT_SECURITY_HASH')
  const random = hidden || security_hash ? newRandomPart() : undefined
  const expiresAt = expire === undefined ? sourceEnds : expire && expiryAfter(durationSeconds(expire) ?? 0, now)
  const kept = keyParts(source.key)?.extension ?? ''
  const named = kept === '' ? nameWithType(name) : { name, extension: kept }
  if (kept === '') assertNotBlocked(named.extension)
  const target: ObjectName = {
    ownerId: source.ownerId,
    bucket: hidden ? 'private' : 'public',
    key: objectKey({ prefix, ...named, random, expiresAt: expiresAt || null }),
  }
  if (target.bucket === source.bucket && target.key === source.key) throw new ApiError('SAME_OBJECT')
  const contentType = kept === '' && named.extension ? contentTypeOf(named.extension) : undefined
  return { name: target, expiresAt: expiresAt || null, contentType }
}
