import { CodedError } from '../../policy/errors.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'
import type { Db } from '../database.ts'

/** What the key of an account is sealed for (policy/seal.ts). */
export const acmeAccountBinding = (directoryUrl: string): string => `acme_accounts/${directoryUrl}`

/** The installation's account at an authority: its key, PEM, and its address there once it is registered. */
interface AcmeAccount {
  privateKey: string
  url: string | null
}

/** The accounts at authorities, by the address of their directory. Reading one throws READ_FAILED when its key cannot be decrypted. */
export function acmeAccounts(db: Db, keys: SealKeys) {
  async function find(directoryUrl: string): Promise<AcmeAccount | null> {
    const row = await db('acme_accounts').where({ directory_url: directoryUrl }).first('url', 'key_sealed')
    if (!row) return null
    try {
      return { url: row.url, privateKey: unseal(keys, row.key_sealed, acmeAccountBinding(directoryUrl)) }
    } catch {
      throw new CodedError('READ_FAILED', `The key of the account at ${directoryUrl} cannot be decrypted.`)
    }
  }

  return {
    find,

    /** Stores an account unless there is one; resolves to the one that is stored then. */
    async keep(directoryUrl: string, { privateKey, url }: AcmeAccount): Promise<AcmeAccount> {
      const key_sealed = seal(keys, privateKey, acmeAccountBinding(directoryUrl))
      await db('acme_accounts')
        .insert({ directory_url: directoryUrl, url, key_sealed })
        .onConflict('directory_url')
        .ignore()
      return (await find(directoryUrl))!
    },

    /** Records the address of an account; null = the authority does not know it any more. */
    async register(directoryUrl: string, url: string | null): Promise<void> {
      await db('acme_accounts').where({ directory_url: directoryUrl }).update({ url })
    },
  }
}
