import { newApiKey } from '../../policy/accounts/credentials.ts'
import { type Db, transaction } from '../database.ts'
import { announceAccess } from './accounts.ts'

/**
 * Replaces the keys with full access by a new one, in one transaction: exactly one of old and new works at any time. Keys limited to
 * scopes, resources or prefixes stay (contract 3.3). The key can be shown only now: only its hash is stored. `record` joins the transaction.
 */
export async function rotateKey(
  db: Db,
  masterKey: string,
  userId: string,
  record?: (trx: Db) => Promise<void>,
): Promise<string> {
  const { id, key, hash } = newApiKey(masterKey, userId)
  await transaction(db, async trx => {
    // Concurrent rotations are serialized, and the key of the later one stays.
    await trx('users').where({ id: userId }).forUpdate().first('id')
    await trx('api_keys')
      .where({ user_id: userId, revoked_at: null, scopes: null, resources: null, prefixes: null })
      .update({ revoked_at: trx.fn.now() })
    await trx('api_keys').insert({ id, hash, user_id: userId })
    await record?.(trx)
    await announceAccess(trx, userId)
  })
  return key
}

type Setting = 'name' | 'locale'

/** Changes a column of an account and resolves to the earlier value; null when nothing changed. */
export async function changeSetting(db: Db, userId: string, setting: Setting, value: string): Promise<string | null> {
  return transaction(db, async trx => {
    const before = await trx('users').where({ id: userId }).forUpdate().first(setting)
    if (!before) return null
    const isSame = before[setting] === value
    if (isSame && setting !== 'locale') return null
    await trx('users')
      .where({ id: userId })
      .update({ [setting]: value, ...(setting === 'locale' && { locale_open: false }) })
    return isSame ? null : before[setting]
  })
}

/** Sets the language of an account to that of its first sign-in, unless one was chosen. */
export async function proposeLocale(db: Db, userId: string, locale: string): Promise<void> {
  await db('users').where({ id: userId, locale_open: true }).update({ locale, locale_open: false })
}
