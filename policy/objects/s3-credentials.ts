import { createHash, hkdfSync } from 'node:crypto'
import { covers, type Scope } from '../accounts/scopes.ts'
import { alphabet62 } from '../ids.ts'
import { deriveKey } from '../keys.ts'

/** The parts of an API key that its S3 credentials derive from. A rotation creates another key, with another id and hash. */
export interface KeyVersion {
  id: string
  hash: Buffer
}

/** Names of the S3 buckets: each is a part of the account's objects. */
export const s3Buckets = ['public', 'private', 'legacy'] as const

export const s3Region = 'auto'

/** The key that S3 credentials derive from: signatures are checked with the secret itself, which cannot be derived from a hash alone. */
export const s3Secret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 's3-credentials')

/** The access key id of an API key, `BRTH` and 16 characters (contract 7.42); not a secret. Postgres has an index on the same expression. */
export function accessKeyId(keyId: string): string {
  return `BRTH${createHash('md5').update(`s3/${keyId}`).digest('hex').slice(0, 16).toUpperCase()}`
}

/** The secret access key of an API key, 40 characters: the same in every process and at any time. */
export function secretAccessKey(secret: Buffer, { id, hash }: KeyVersion): string {
  const bytes = new Uint8Array(hkdfSync('sha256', secret, hash, `${id}/1`, 96))
  const fair = [...bytes].filter(byte => byte < 248) // higher values would make some characters more likely
  return fair
    .slice(0, 40)
    .map(byte => alphabet62[byte % 62])
    .join('')
}

/** The rights of S3 credentials, by the scopes of their key. */
export const s3Access = (scopes: readonly Scope[] | null): { read: boolean; write: boolean } => ({
  read: covers(scopes, 'blob:read'),
  write: covers(scopes, 'blob:write'),
})
