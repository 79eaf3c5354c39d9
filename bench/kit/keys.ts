import { createKey, createUser, revokeKey } from '../../db/accounts/accounts.ts'
import { openDatabase } from '../../db/database.ts'
import { newApiKey } from '../../policy/accounts/credentials.ts'
import { newUserId } from '../../policy/ids.ts'
import { seedApp, seedHost } from './seeds.ts'

export interface BenchKeys {
  /** One of each account, with the address of its application. */
  valid: { key: string; path: string }[]
  /** Of the right form, but never issued. */
  madeUp: string[]
  /** Issued once, of no account any more. */
  revoked: string[]
}

/** Accounts with a key and an application each, and keys that open nothing. */
export async function seedKeys(url: string, masterKey: string, accounts: number): Promise<BenchKeys> {
  const db = openDatabase({ url, pool: 1 })
  await seedHost(db)
  const keys: BenchKeys = { valid: [], madeUp: [], revoked: [] }
  for (let n = 0; n < accounts; n++) {
    const user = await createUser(db, { name: 'Bench', email: `bench-${n}@example.org`, plan: 'enterprise-32' })
    const { key } = await createKey(db, masterKey, { userId: user.id })
    const appId = await seedApp(db, user.id, `bench-${n}`)
    keys.valid.push({ key, path: `/v2/apps/${appId}` })
    const old = await createKey(db, masterKey, { userId: user.id })
    await revokeKey(db, old.id)
    keys.revoked.push(old.key)
    keys.madeUp.push(...Array.from({ length: 5 }, () => newApiKey('cd'.repeat(32), newUserId()).key))
  }
  await db.destroy()
  return keys
}
