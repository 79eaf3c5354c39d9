import { createKey, createUser, findUserByEmail, findUserByKeyHash } from '../../db/accounts/accounts.ts'
import type { Db } from '../../db/database.ts'
import { credentialHash } from '../../policy/accounts/credentials.ts'
import type { Installation } from './installation.ts'
import { saveSecrets } from './secrets.ts'

const first = { email: 'admin@berth.local', name: 'Admin', plan: 'enterprise-32' }

/** Creates the first account and its key unless the secrets have them; continues where an interrupted start ended. */
export async function ensureFirstAccount(installation: Installation, db: Db): Promise<void> {
  const { secrets, config, dataDir } = installation
  if (secrets.userId && secrets.apiKey) return
  const user = (await findUserByEmail(db, first.email)) ?? (await createUser(db, first))
  const { key } = await createKey(db, config.masterKey, { userId: user.id, name: 'first' })
  Object.assign(secrets, { userId: user.id, apiKey: key })
  saveSecrets(dataDir, secrets)
}

/** The first key while it is valid; null once it was rotated or revoked. */
export async function firstKey({ secrets }: Installation, db: Db): Promise<string | null> {
  if (!secrets.apiKey) return null
  const user = await findUserByKeyHash(db, credentialHash(secrets.apiKey))
  return user && !user.blocked_at ? secrets.apiKey : null
}
