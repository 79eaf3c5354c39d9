import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'
import type { SealKeys } from '../seal.ts'
import type { Disposition } from './object-headers.ts'

/** The object of a temporary link, and how it is served. */
export interface ObjectLink {
  /** The object's id, and its birth: a link ends with the object, and a new object of that name does not revive it. */
  id: string
  birth: string
  /** Unix seconds. */
  expires: number
  disposition: Disposition | null
  filename: string | null
}

const version = 1
/** Max length: the longest id and file name, encoded twice. */
const maxLength = 6000

/** The token of `/d/<token>`: its fields, and their signature with the newest key. */
export function linkToken({ current, keys }: SealKeys, link: ObjectLink): string {
  const { id, birth, expires, disposition, filename } = link
  const payload = Buffer.from(JSON.stringify([version, current, id, birth, expires, disposition, filename])).toString(
    'base64url',
  )
  return `${payload}.${signatureOf(keyOf(keys.get(current) as Buffer), payload)}`
}

/** The link of a token; null when it is malformed, forged, signed with a removed key, or expired. */
export function readLinkToken({ keys }: SealKeys, token: string, now: Date): ObjectLink | null {
  if (token.length > maxLength) return null
  const [payload = '', signature = '', ...rest] = token.split('.')
  const fields = parsed(payload)
  const key = fields && keys.get(Number(fields[1]))
  if (!key || rest.length > 0 || fields[0] !== version || !isSignatureOf(keyOf(key), payload, signature)) return null
  const [, , id, birth, expires, disposition, filename] = fields as [number, number, ...Values]
  return expires * 1000 > now.getTime() ? { id, birth, expires, disposition, filename } : null
}

type Values = [string, string, number, Disposition | null, string | null]

function parsed(payload: string): unknown[] | null {
  try {
    const fields: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
    return Array.isArray(fields) ? fields : null
  } catch {
    return null
  }
}

const keyOf = (sealKey: Buffer): Buffer => deriveKey(sealKey.toString('hex'), 'object-links')
