import { checkKey } from '../../policy/accounts/credentials.ts'
import { firstKeyId } from '../../policy/seal.ts'
import { random, type Secrets, saveSecrets } from '../installation/secrets.ts'

/** What can be rotated beside the keys that seal. Each is one writing of the secrets; the next start does the rest. */
export const rotations = ['master', 'database'] as const
export type Rotation = (typeof rotations)[number]

/** What ends with a root secret, and what does not: said before and after. */
export const endsWithMaster =
  'Everybody signs in anew. Codes in mails, links of snapshots, upload tokens, uploads in parts that are under way, pages of lists and S3 credentials end and are asked for anew. API keys, shares, webhooks, variables and everything stored go on.'

/**
 * The secrets with a new root secret. API keys go on, because the key of their check is kept. Throws an Error while values are
 * sealed with the key that derives from the old one: they would be lost.
 */
export function withNewMaster(before: Secrets, counts: ReadonlyMap<number, number>, sealing: number): Secrets {
  const held = counts.get(firstKeyId) ?? 0
  if (sealing === firstKeyId || held > 0)
    throw new Error(
      `The root secret still encrypts (${held} values). First: berth secrets rotate, berth down, berth up, and wait until berth secrets status shows no values of key ${firstKeyId}.`,
    )
  const check = checkKey(before.masterKey).toString('hex')
  return { ...before, masterKey: random(32), earlierKeyChecks: [...(before.earlierKeyChecks ?? []), check] }
}

/** The secrets with new passwords of both logins of the embedded Postgres; one that waits for a start already is kept. */
export function withNewPasswords(before: Secrets): Secrets {
  return { ...before, processPassword: random(24), nextDatabasePassword: before.nextDatabasePassword ?? random(24) }
}

/** Writes down that the server knows its owner by the password that a rotation wanted. None wanted is success. */
export function adoptDatabasePassword({ dataDir, secrets }: { dataDir: string; secrets: Secrets }): void {
  const { nextDatabasePassword } = secrets
  if (!nextDatabasePassword) return
  Object.assign(secrets, { databasePassword: nextDatabasePassword })
  delete secrets.nextDatabasePassword
  saveSecrets(dataDir, secrets)
}
