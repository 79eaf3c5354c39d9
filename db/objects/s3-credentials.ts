import { accessKeyId, type KeyVersion, secretAccessKey } from '../../policy/objects/s3-credentials.ts'
import { type CredentialRow, findUserByKeyHash } from '../accounts/accounts.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'

const versionOf = statement<KeyVersion>(
  's3-credentials.version',
  `select id, hash from api_keys where id = $1 and revoked_at is null`,
)

/** The S3 credentials of an API key; undefined when the key is revoked. For `secret` see policy/objects/s3-credentials.ts. */
export async function s3PairOf(
  db: Db,
  secret: Buffer,
  keyId: string,
): Promise<{ accessKeyId: string; secretAccessKey: string } | undefined> {
  const [key] = await versionOf(db, [keyId])
  return key && { accessKeyId: accessKeyId(key.id), secretAccessKey: secretAccessKey(secret, key) }
}

const byAccessKey = statement<KeyVersion>(
  's3-credentials.find',
  `select id, hash from api_keys where 'BRTH' || upper(left(md5('s3/' || id), 16)) = $1 and revoked_at is null`,
)

/** Account, rights and secret of an access key id; undefined when its key is revoked, expired or unknown, or its account blocked. */
export async function findS3Credential(
  db: Db,
  secret: Buffer,
  accessKeyId: string,
): Promise<{ user: CredentialRow; secretAccessKey: string } | undefined> {
  const [key] = await byAccessKey(db, [accessKeyId])
  const user = key && (await findUserByKeyHash(db, key.hash))
  return user && !user.blocked_at ? { user, secretAccessKey: secretAccessKey(secret, key) } : undefined
}
