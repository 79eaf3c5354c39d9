import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolderNow } from '../../lib/folders/sync-folder.ts'
import type { KeptValues } from '../../policy/installation/outside-secrets.ts'

/** What an installation must never lose and never show: one file of mode 0600 in the data folder. */
export interface Secrets {
  /** Root secret, 32 bytes in hex. */
  masterKey: string
  /** Keys that rotations have added, 32 bytes in hex, by number. */
  sealKeys?: Record<string, string>
  /** What is left of root secrets that were rotated out: enough to know their API keys, too little to make anything. */
  earlierKeyChecks?: string[]
  /** What outside systems have given out anew, by setting. */
  outside?: KeptValues
  /** Takes the place of the next one at the next start. */
  nextDatabasePassword?: string
  /** Of the login that owns the embedded Postgres, for set-up alone. */
  databasePassword: string
  /** Of the login that the processes have there. */
  processPassword?: string
  /** Part of this machine's host name: two installations on one engine must never take each other's containers for theirs. */
  installationId: string
  /** The first account and its key, once made. */
  userId?: string
  apiKey?: string
}

const fileName = 'secrets.json'

/** Reads the secrets, or makes them at the first start. */
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

/** The same for a start, with what secrets of an older version lack. */
export function secretsForStart(dataDir: string): Secrets & Required<Pick<Secrets, 'processPassword'>> {
  const secrets = openSecrets(dataDir)
  const whole = { ...secrets, processPassword: secrets.processPassword ?? random(24) }
  if (!secrets.processPassword) saveSecrets(dataDir, whole)
  return whole
}

/** Replaces the file as a whole; it outlasts a power cut once this returns, so that nothing is made with secrets that are lost. */
export function saveSecrets(dataDir: string, secrets: Secrets): void {
  const path = join(dataDir, fileName)
  writeFileSync(`${path}.new`, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600, flush: true })
  renameSync(`${path}.new`, path)
  syncFolderNow(dataDir)
}

/** Values that rotations brought of outside systems; none where there are no secrets, as on a further host. */
export function outsideValues(dataDir: string): KeptValues {
  return existsSync(join(dataDir, fileName)) ? (openSecrets(dataDir).outside ?? {}) : {}
}

/** The further keys in the form of the setting BERTH_SEAL_KEYS. */
export function sealKeysText({ sealKeys = {} }: Pick<Secrets, 'sealKeys'>): string {
  return Object.entries(sealKeys)
    .map(([id, hex]) => `${id}:${hex}`)
    .join(',')
}

export const random = (bytes: number): string => randomBytes(bytes).toString('hex')
