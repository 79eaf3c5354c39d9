import { isSignatureOf, signatureOf } from '../../lib/signed-text.ts'
import { deriveKey } from '../keys.ts'
import type { SealKeys } from '../seal.ts'
import type { Disposition } from './object-headers.ts'

/** What a temporary link leads to, and how it is shown there. */
export interface ObjectLink {
  /** The object's id, and its birth: a link dies when the name does, and a new object of that name does not revive it. */
  id: string
  birth: string
  /** Unix seconds. */
  expires: number
  disposition: Disposition | null
  filename: string | null
}

const version = 1
/** An id and a file name at their longest, encoded twice. */
const longest = 6000

/** The token of `/d/<token>`: what it says, and the signature over it, with the newest key. */
export function linkToken({ current, keys }: SealKeys, link: ObjectLink): string {
  const { id, birth, expires, disposition, filename } = link
  const said = Buffer.from(JSON.stringify([version, current, id, birth, expires, disposition, filename])).toString(
    'base64url',
  )
  return `${said}.${signatureOf(keyOf(keys.get(current) as Buffer), said)}`
}

/** What a token says; null when it is malformed, changed, of a key that is gone, or too late. */
export function readLinkToken({ keys }: SealKeys, token: string, now: Date): ObjectLink | null {
  if (token.length > longest) return null
  const [said = '', signature = '', ...rest] = token.split('.')
  const fields = parsed(said)
  const key = fields && keys.get(Number(fields[1]))
  if (!key || rest.length > 0 || fields[0] !== version || !isSignatureOf(keyOf(key), said, signature)) return null
  const [, , id, birth, expires, disposition, filename] = fields as [number, number, ...Values]
  return expires * 1000 > now.getTime() ? { id, birth, expires, disposition, filename } : null
}

type Values = [string, string, number, Disposition | null, string | null]

function parsed(said: string): unknown[] | null {
  try {
    const fields: unknown = JSON.parse(Buffer.from(said, 'base64url').toString())
    return Array.isArray(fields) ? fields : null
  } catch {
    return null
  }
}

const keyOf = (sealKey: Buffer): Buffer => deriveKey(sealKey.toString('hex'), 'object-links')
