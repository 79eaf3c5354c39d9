import { createHash, hkdfSync } from 'node:crypto'
import { covers, type Scope } from '../accounts/scopes.ts'
import { alphabet62 } from '../ids.ts'
import { deriveKey } from '../keys.ts'

/** An API key, as far as its S3 pair comes from it. A rotation makes another key, with another id and hash. */
export interface KeyVersion {
  id: string
  hash: Buffer
}

/** What the S3 buckets are called: each is a part of the account's objects. */
export const s3Buckets = ['public', 'private', 'legacy'] as const

export const s3Region = 'auto'

/** The key from which pairs derive: signatures are checked with the secret itself, which the API key's hash cannot give. */
export const s3Secret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 's3-credentials')

/** The name of a key's pair, `BRTH` and 16 characters (contract 7.42); no secret. Postgres has an index of the same words. */
export function accessKeyId(keyId: string): string {
  return `BRTH${createHash('md5').update(`s3/${keyId}`).digest('hex').slice(0, 16).toUpperCase()}`
}

/** The secret of a key's pair, 40 characters: the same whoever asks, in every process. */
export function secretAccessKey(secret: Buffer, { id, hash }: KeyVersion): string {
  const bytes = new Uint8Array(hkdfSync('sha256', secret, hash, `${id}/1`, 96))
  const fair = [...bytes].filter(byte => byte < 248) // from there on some characters would be likelier than others
  return fair
    .slice(0, 40)
    .map(byte => alphabet62[byte % 62])
    .join('')
}

/** What a pair may do, by the scopes of its key. */
export const s3Access = (scopes: readonly Scope[] | null): { read: boolean; write: boolean } => ({
  read: covers(scopes, 'blob:read'),
  write: covers(scopes, 'blob:write'),
})
