import { checkKey } from '../../policy/accounts/credentials.ts'
import { firstKeyId } from '../../policy/seal.ts'
import { random, type Secrets, saveSecrets } from '../installation/secrets.ts'

/** What can be rotated besides the keys that seal. Each is one change of the secrets file; the next start does the rest. */
export const rotations = ['master', 'database'] as const
export type Rotation = (typeof rotations)[number]

/** What ends with a root secret, and what does not: shown before and after. */
export const endsWithMaster =
  'Everyone must sign in again. Mailed codes, snapshot links, upload tokens, uploads in parts that are in progress, list cursors and S3 credentials become invalid and must be requested again. API keys, shares, webhooks, variables and all stored data stay valid.'

/**
 * The secrets with a new root secret. API keys stay valid, because the key that checks them is retained. Throws an Error while values
 * are sealed with the key that derives from the old root secret: they would be lost.
 */
export function withNewMaster(before: Secrets, counts: ReadonlyMap<number, number>, sealing: number): Secrets {
  const sealed = counts.get(firstKeyId) ?? 0
  if (sealing === firstKeyId || sealed > 0)
    throw new Error(
      `The root secret still encrypts ${sealed} values. First: berth secrets rotate, berth down, berth up, and wait until berth secrets status shows no values of key ${firstKeyId}.`,
    )
  const check = checkKey(before.masterKey).toString('hex')
  return { ...before, masterKey: random(32), earlierKeyChecks: [...(before.earlierKeyChecks ?? []), check] }
}

/** The secrets with new passwords for both logins of the embedded Postgres; one that already waits for the next start is retained. */
export function withNewPasswords(before: Secrets): Secrets {
  return { ...before, processPassword: random(24), nextDatabasePassword: before.nextDatabasePassword ?? random(24) }
}

/** Saves that the server has accepted the rotated password of its owner. Without a rotation this does nothing. */
export function adoptDatabasePassword({ dataDir, secrets }: { dataDir: string; secrets: Secrets }): void {
  const { nextDatabasePassword } = secrets
  if (!nextDatabasePassword) return
  Object.assign(secrets, { databasePassword: nextDatabasePassword })
  delete secrets.nextDatabasePassword
  saveSecrets(dataDir, secrets)
}
