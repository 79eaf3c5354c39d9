import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'
import type { Bucket } from './object-names.ts'

/** The last entry of a page: an object, or, without a bucket, a folder with all its objects. */
export interface ListPosition {
  key: string
  bucket: Bucket | null
}

/** The parameters of a listing; a cursor is valid only with the same ones. */
export interface ListFilters {
  ownerId: string
  buckets: readonly Bucket[]
  prefix: string
  delimiter?: string
}

/** Longer cursors are refused without parsing (contract 7.15). */
export const cursorLength = 2048
/** How long a cursor is valid. */
const cursorSeconds = 24 * 3600

export const cursorSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'object-lists')

const letters = { public: 'p', private: 'r', legacy: 'l' } as const
/** The form of a cursor. */
export const cursorForm = /^([a-z0-9]+)\.([prlf])\.([\w-]*)\.([\w-]{43})$/

const signed = (position: string, { ownerId, buckets, prefix, delimiter }: ListFilters): string =>
  JSON.stringify([position, ownerId, buckets, prefix, delimiter ?? null])

/** Encodes and signs a position; only the same listing of this account accepts it. */
export function listCursor(secret: Buffer, filters: ListFilters, { key, bucket }: ListPosition, now: Date): string {
  const at = Math.floor(now.getTime() / 1000).toString(36)
  const position = `${at}.${bucket === null ? 'f' : letters[bucket]}.${Buffer.from(key).toString('base64url')}`
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
  const bucket = (['public', 'private', 'legacy'] as const).find(one => letters[one] === letter) ?? null
  return { key: Buffer.from(key, 'base64url').toString(), bucket }
}
