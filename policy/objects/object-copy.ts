import { CodedError } from '../errors.ts'
import { assertOption } from './blob-options.ts'
import { durationSeconds, expiryAfter, shortExpirySeconds } from './object-expiry.ts'
import { keyParts, newRandomPart, type ObjectName, objectKey } from './object-names.ts'
import { contentTypeOf } from './object-types.ts'
import { assertNotBlocked, nameWithType } from './uploads/uploaded-file.ts'

/** The destination of a copy (contract 7.19), as far as the caller specified it. */
export interface Destination {
  name: string
  prefix?: string
  private?: boolean
  expire?: string | null
  security_hash?: boolean
}

/** The name and properties of a copy. */
export interface CopyTarget {
  name: ObjectName
  expiresAt: Date | null
  /** The type of the name's extension, when the source has none; else undefined. */
  contentType?: string
}

/** Throws UPGRADE_REQUIRED for a requested expiry below 7 days. What a copy inherits was set already: keeping it needs no plan. */
export function assertMayCopy({ expire }: Pick<Destination, 'expire'>, planName: string): void {
  if (expire && (durationSeconds(expire) ?? 0) < shortExpirySeconds) assertOption(planName, 'short-expiry')
}

/**
 * The name and expiry of a copy: it inherits the extension, and visibility and expiry unless they are given. A private copy has a random
 * part. A source without extension gets that of the name, as in an upload. Throws INVALID_OBJECT_SECURITY_HASH for a private copy
 * without a random part, SAME_OBJECT, and INVALID_OBJECT_NAME or BLOCKED_FILE_TYPE for an extension that comes from the name.
 */
export function copyTarget(
  source: ObjectName,
  sourceEnds: Date | null,
  { name, prefix = '', private: hidden = source.bucket === 'private', expire, security_hash }: Destination,
  now: Date,
): CopyTarget {
  if (hidden && security_hash === false) throw new CodedError('INVALID_OBJECT_SECURITY_HASH')
  const random = hidden || security_hash ? newRandomPart() : undefined
  const expiresAt = expire === undefined ? sourceEnds : expire && expiryAfter(durationSeconds(expire) ?? 0, now)
  const ownExtension = keyParts(source.key)?.extension ?? ''
  const named = ownExtension === '' ? nameWithType(name) : { name, extension: ownExtension }
  if (ownExtension === '') assertNotBlocked(named.extension)
  const target: ObjectName = {
    ownerId: source.ownerId,
    bucket: hidden ? 'private' : 'public',
    key: objectKey({ prefix, ...named, random, expiresAt: expiresAt || null }),
  }
  if (target.bucket === source.bucket && target.key === source.key) throw new CodedError('SAME_OBJECT')
  const contentType = ownExtension === '' && named.extension ? contentTypeOf(named.extension) : undefined
  return { name: target, expiresAt: expiresAt || null, contentType }
}
