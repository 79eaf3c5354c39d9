import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'
import type { Bucket } from './object-names.ts'

/** The last that a page of objects told: an object, or with no bucket a folder with everything in it. */
export interface ListPosition {
  key: string
  bucket: Bucket | null
}

/** What a listing shows and in which folders; a cursor goes on with no other. */
export interface ListFilters {
  ownerId: string
  buckets: readonly Bucket[]
  prefix: string
  delimiter?: string
}

/** Longer ones are refused unread (contract 7.15). */
export const cursorLength = 2048
/** A listing that was left so long ago begins anew. */
const goodSeconds = 24 * 3600

export const cursorSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'object-lists')

const letters = { public: 'p', private: 'r', legacy: 'l' } as const
/** A cursor as it looks. */
export const cursorForm = /^([a-z0-9]+)\.([prlf])\.([\w-]*)\.([\w-]{43})$/

const signed = (told: string, { ownerId, buckets, prefix, delimiter }: ListFilters): string =>
  JSON.stringify([told, ownerId, buckets, prefix, delimiter ?? null])

/** Where a listing goes on, as a text that only this account's same listing takes back. */
export function listCursor(secret: Buffer, filters: ListFilters, { key, bucket }: ListPosition, now: Date): string {
  const at = Math.floor(now.getTime() / 1000).toString(36)
  const told = `${at}.${bucket === null ? 'f' : letters[bucket]}.${Buffer.from(key).toString('base64url')}`
  return `${told}.${signatureOf(secret, signed(told, filters))}`
}

/** Where a cursor goes on; undefined when it is malformed, changed, too old, or of another listing or account. */
export function readListCursor(
  secret: Buffer,
  filters: ListFilters,
  cursor: string,
  now: Date,
): ListPosition | undefined {
  const [, at, letter, key, signature] = (cursor.length <= cursorLength && cursorForm.exec(cursor)) || []
  if (!at || !letter || key === undefined || !signature) return undefined
  if (!isSignatureOf(secret, signed(`${at}.${letter}.${key}`, filters), signature)) return undefined
  if (now.getTime() / 1000 - Number.parseInt(at, 36) > goodSeconds) return undefined
  const bucket = (['public', 'private', 'legacy'] as const).find(one => letters[one] === letter) ?? null
  return { key: Buffer.from(key, 'base64url').toString(), bucket }
}
