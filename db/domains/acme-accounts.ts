import { ApiError } from '../../policy/errors.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import type { Db } from '../database.ts'

/** What the key of an account is sealed for (policy/seal.ts). */
export const acmeAccountBinding = (directoryUrl: string): string => `acme_accounts/${directoryUrl}`

/** The installation's account at an authority. */
export interface AcmeAccount {
  /** PEM */
  privateKey: string
  /** Of its key: the second half of every answer to a challenge (RFC 8555, 8.1). */
  thumbprint: string
}

/**
 * The account at an authority. Of concurrent callers each may call `make`; all get what is stored. Throws READ_FAILED when its key cannot
 * be decrypted.
 */
export async function ensureAcmeAccount(
  db: Db,
  keys: SealKeys,
  directoryUrl: string,
  make: () => Promise<AcmeAccount>,
): Promise<AcmeAccount> {
  const present = await read(db, keys, directoryUrl)
  if (present) return present
  const { privateKey, thumbprint } = await make()
  const key_sealed = seal(keys, privateKey, acmeAccountBinding(directoryUrl))
  await db('acme_accounts')
    .insert({ directory_url: directoryUrl, key_sealed, thumbprint })
    .onConflict('directory_url')
    .ignore()
  // Of another caller, if that one was first.
  return (await read(db, keys, directoryUrl))!
}

async function read(db: Db, keys: SealKeys, directoryUrl: string): Promise<AcmeAccount | null> {
  const row = await db('acme_accounts').where({ directory_url: directoryUrl }).first('key_sealed', 'thumbprint')
  if (!row) return null
  try {
    return {
      privateKey: unseal(keys, row.key_sealed, acmeAccountBinding(directoryUrl)),
      thumbprint: row.thumbprint,
    }
  } catch {
    throw new ApiError('READ_FAILED', `The key of the account at ${directoryUrl} cannot be decrypted.`)
  }
}
