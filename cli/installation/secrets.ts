import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolderNow } from '../../lib/folders/sync-folder.ts'
import type { KeptValues } from '../../policy/installation/outside-secrets.ts'

/** The secrets of an installation, which it must never lose or show: one file of mode 0600 in the data folder. */
export interface Secrets {
  /** Root secret, 32 bytes in hex. */
  masterKey: string
  /** Keys added by rotations, 32 bytes in hex, by number. */
  sealKeys?: Record<string, string>
  /** The remains of former root secrets: enough to recognize their API keys, not enough to create anything. */
  earlierKeyChecks?: string[]
  /** Rotated secrets of outside systems, by setting. */
  outside?: KeptValues
  /** Replaces `databasePassword` at the next start. */
  nextDatabasePassword?: string
  /** Of the login that owns the embedded Postgres, for setup only. */
  databasePassword: string
  /** Of the login that the processes use there. */
  processPassword?: string
  /** Part of this machine's host name, so that two installations on one engine never mistake each other's containers for their own. */
  installationId: string
  /** The first account and its key, once created. */
  userId?: string
  apiKey?: string
}

const fileName = 'secrets.json'

/** Reads the secrets, or creates them at the first start. */
export function openSecrets(dataDir: string): Secrets {
  const path = join(dataDir, fileName)
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as Secrets
  const secrets = {
    masterKey: random(32),
    databasePassword: random(24),
    processPassword: random(24),
    installationId: random(3),
  }
  saveSecrets(dataDir, secrets)
  return secrets
}

/** The same for a start; adds what the secrets of an older version lack. */
export function secretsForStart(dataDir: string): Secrets & Required<Pick<Secrets, 'processPassword'>> {
  const secrets = openSecrets(dataDir)
  const complete = { ...secrets, processPassword: secrets.processPassword ?? random(24) }
  if (!secrets.processPassword) saveSecrets(dataDir, complete)
  return complete
}

/** Replaces the whole file, and syncs it: nothing may be created with secrets that a power cut could lose. */
export function saveSecrets(dataDir: string, secrets: Secrets): void {
  const path = join(dataDir, fileName)
  writeFileSync(`${path}.new`, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600, flush: true })
  renameSync(`${path}.new`, path)
  syncFolderNow(dataDir)
}

/** Rotated secrets of outside systems; none if there is no secrets file, as on a further host. */
export function outsideValues(dataDir: string): KeptValues {
  return existsSync(join(dataDir, fileName)) ? (openSecrets(dataDir).outside ?? {}) : {}
}

/** The added keys in the form of the setting BERTH_SEAL_KEYS. */
export function sealKeysText({ sealKeys = {} }: Pick<Secrets, 'sealKeys'>): string {
  return Object.entries(sealKeys)
    .map(([id, hex]) => `${id}:${hex}`)
    .join(',')
}

export const random = (bytes: number): string => randomBytes(bytes).toString('hex')
