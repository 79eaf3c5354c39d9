import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'
import { type Bucket, type ExtraBucket, isExtraBucket } from './object-names.ts'

/** The last entry of a page: an object, or, without a bucket, a folder with all its objects. */
export interface ListPosition {
  key: string
  bucket: Bucket | ExtraBucket | null
}

/** The parameters of a listing; a cursor is valid only with the same ones. */
export interface ListFilters {
  ownerId: string
  buckets: readonly (Bucket | ExtraBucket)[]
  prefix: string
  delimiter?: string
}

/** Longer cursors are refused without parsing (contract 7.15). */
export const cursorLength = 2048
/** How long a cursor is valid. */
const cursorSeconds = 24 * 3600

export const cursorSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'object-lists')

const letters = { public: 'p', private: 'r', legacy: 'l', extra: 'x' } as const
const letterOf = (bucket: Bucket | ExtraBucket): string => letters[isExtraBucket(bucket) ? 'extra' : bucket]

/** The form of a cursor. */
export const cursorForm = /^([a-z0-9]+)\.([prlxf])\.([\w-]*)\.([\w-]{43})$/

const signed = (position: string, { ownerId, buckets, prefix, delimiter }: ListFilters): string =>
  JSON.stringify([position, ownerId, buckets, prefix, delimiter ?? null])

/** Encodes and signs a position; only the same listing of this account accepts it. */
export function listCursor(secret: Buffer, filters: ListFilters, { key, bucket }: ListPosition, now: Date): string {
  const at = Math.floor(now.getTime() / 1000).toString(36)
  const position = `${at}.${bucket === null ? 'f' : letterOf(bucket)}.${Buffer.from(key).toString('base64url')}`
  return `${position}.${signatureOf(secret, signed(position, filters))}`
}

/** The position in a cursor; undefined when it is malformed, forged, too old, or of another listing or account. */
export function readListCursor(
  secret: Buffer,
  filters: ListFilters,
  cursor: string,
  now: Date,
): ListPosition | undefined {
  const [, at, letter, key, signature] = (cursor.length <= cursorLength && cursorForm.exec(cursor)) || []
  if (!at || !letter || key === undefined || !signature) return undefined
  if (!isSignatureOf(secret, signed(`${at}.${letter}.${key}`, filters), signature)) return undefined
  if (now.getTime() / 1000 - Number.parseInt(at, 36) > cursorSeconds) return undefined
  // An extra bucket is never listed together with another one.
  const own = filters.buckets.filter(isExtraBucket)
  const bucket = [...(['public', 'private', 'legacy'] as const), ...own].find(one => letterOf(one) === letter) ?? null
  return { key: Buffer.from(key, 'base64url').toString(), bucket }
}
