import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Config, type Environment, parseConfig } from '../../policy/config.ts'
import { valuesInPlace } from '../../policy/installation/outside-secrets.ts'
import { postgresUrl, processUrl } from '../services/postgres.ts'
import { dataFolder, makeDataFolder } from './data-folder.ts'
import { createInside, mustBeOwn } from './folder-owner.ts'
import { choosePorts, type PortName, type Ports, portDefaults } from './ports.ts'
import { openSecrets, type Secrets, sealKeysText, secretsForStart } from './secrets.ts'

/** The checkout that this command belongs to: `cli` lies in it, or in its `dist`. */
export const checkout = findCheckout(dirname(dirname(fileURLToPath(import.meta.url))))

/** One platform on this machine: its settings as its processes see them. */
export interface Installation {
  dataDir: string
  runFolder: string
  logFolder: string
  /** Settings of Berth only; processes get them on top of the caller's environment. */
  settings: Record<string, string>
  config: Config
  ports: Ports
  secrets: Secrets
  /** Parts that run elsewhere already. */
  external: { postgres: boolean; temporal: boolean }
  /** Sentences for the summary. */
  notes: string[]
  /** Its processes are containers, and every setting stands in the environment. */
  inContainers?: boolean
  /** Folder and object store are made this database's, whoever's they were. */
  adopts?: boolean
}

export class NotRunning extends Error {
  override name = 'NotRunning'
}

/** Where the data of the platform that these settings name lies. */
export function dataDirOf(env: Environment): string {
  return dataFolder(env.BERTH_DATA, checkout)
}

/** The same for commands that read or change what lies in it. Throws an Error when it is another user's. */
export function ownDataDir(env: Environment): string {
  const folder = dataDirOf(env)
  mustBeOwn(folder)
  return folder
}

export interface DataPlace {
  dataDir: string
  runFolder: string
  logFolder: string
  note: string | null
}

/** Makes the data folder and what every command expects in it. Throws an Error that says what to do where this user may not. */
export function openDataPlace(env: Environment): DataPlace {
  const wanted = ownDataDir(env)
  return createInside(wanted, () => {
    const { folder: dataDir, note } = makeDataFolder(wanted, checkout)
    const place = { dataDir, runFolder: join(dataDir, 'run'), logFolder: join(dataDir, 'logs'), note }
    for (const folder of [place.runFolder, place.logFolder]) mkdirSync(folder, { recursive: true, mode: 0o755 })
    return place
  })
}

/** Makes secrets where missing, chooses ports, and fixes every setting for this start. */
export async function openInstallation(env: Environment, { note, ...place }: DataPlace): Promise<Installation> {
  const { dataDir, runFolder } = place
  const secrets = secretsForStart(dataDir)
  const ports = await choosePorts(env, readJson(join(runFolder, 'ports.json')) ?? {})
  const external = { postgres: Boolean(env.DATABASE_URL), temporal: Boolean(env.TEMPORAL_ADDRESS) }
  const own = settingsFor(env, dataDir, ports, secrets)
  const settings = { ...own, ...valuesInPlace({ ...env, ...own }, secrets.outside) }
  const notes = [note, movedPorts(env, ports)].filter(sentence => sentence !== null)
  const config = parseConfig({ ...env, ...settings }, checkout)
  writeJson(join(runFolder, 'ports.json'), ports)
  writeJson(join(runFolder, 'settings.json'), { settings: { ...ownSettings(env), ...settings }, external, ports })
  return { ...place, settings, config, ports, secrets, external, notes }
}

type SavedStart = Pick<Installation, 'settings' | 'external' | 'ports' | 'inContainers'>

/** The installation as its last start fixed it, or as its containers' environment says. Throws `NotRunning` when there is neither. */
export function loadInstallation(env: Environment): Installation {
  const dataDir = dataDirOf(env)
  const runFolder = join(dataDir, 'run')
  const saved = savedStart(join(runFolder, 'settings.json')) ?? containerStart(env)
  if (!saved) throw new NotRunning(`Berth has not been started with its data in ${dataDir}. Start it with: berth up`)
  const secrets = existsSync(join(runFolder, 'settings.json')) ? openSecrets(dataDir) : containerSecrets(env)
  const said = { ...env, ...saved.settings }
  const settings = { ...saved.settings, ...valuesInPlace(said, secrets.outside) }
  const config = parseConfig({ ...env, ...settings }, checkout)
  return {
    ...saved,
    settings,
    dataDir,
    runFolder,
    logFolder: join(dataDir, 'logs'),
    config,
    secrets,
    notes: [],
  }
}

/** What the last start wrote down. Throws `NotRunning` when another user did. */
function savedStart(path: string): SavedStart | null {
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return null
    throw new NotRunning(
      `Berth was started by another user here, and ${path} is that user's: run this command as that user.`,
    )
  }
  return readJson<SavedStart>(path)
}

/** In an installation in containers every setting stands in the environment, and nothing is chosen or saved. */
function containerStart(env: Environment): SavedStart | null {
  if (!env.DATABASE_URL || !env.BERTH_MASTER_KEY) return null
  const settings = ownSettings(env)
  return { settings, external: { postgres: true, temporal: true }, ports: portDefaults, inContainers: true }
}

/** Nothing is written there either: the folder may not be the container's to write to. */
function containerSecrets(env: Environment): Secrets {
  return { masterKey: env.BERTH_MASTER_KEY ?? '', databasePassword: '', installationId: '' }
}

/** What the environment says wins; the rest follows from ports and secrets. */
function settingsFor(
  env: Environment,
  dataDir: string,
  ports: Ports,
  secrets: ReturnType<typeof secretsForStart>,
): Record<string, string> {
  const s3rver = env.OBJECT_STORE === 's3rver'
  return {
    BERTH_DATA: dataDir,
    // Our proxy speaks from loopback; what it says of its clients counts.
    TRUSTED_PROXIES: env.TRUSTED_PROXIES ?? '127.0.0.1',
    HOST_NAME: env.HOST_NAME ?? `local-${secrets.installationId}`,
    BERTH_MASTER_KEY: env.BERTH_MASTER_KEY ?? secrets.masterKey,
    BERTH_SEAL_KEYS: env.BERTH_SEAL_KEYS ?? sealKeysText(secrets),
    BERTH_EARLIER_KEY_CHECKS: env.BERTH_EARLIER_KEY_CHECKS ?? (secrets.earlierKeyChecks ?? []).join(','),
    DATABASE_URL: env.DATABASE_URL ?? processUrl(ports.POSTGRES_PORT, secrets.processPassword, 'berth'),
    TEMPORAL_ADDRESS: env.TEMPORAL_ADDRESS || `127.0.0.1:${ports.TEMPORAL_PORT}`,
    ...(env.TEMPORAL_ADDRESS ? {} : { TEMPORAL_UI_URL: `http://127.0.0.1:${ports.TEMPORAL_UI_PORT}` }),
    ...Object.fromEntries((Object.keys(ports) as PortName[]).map(name => [name, String(ports[name])])),
    ...(s3rver
      ? {
          S3_STORE_ENDPOINT: `http://127.0.0.1:${ports.S3RVER_PORT}`,
          S3_STORE_ACCESS_KEY_ID: 'S3RVER', // the one account that s3rver knows
          S3_STORE_SECRET_ACCESS_KEY: 'S3RVER',
        }
      : {}),
  }
}

const ownNames =
  /^(API|BLOB|S3|FILES|PUBLIC|EDGE|HOST|TEMPORAL|DATABASE|OBJECT|BUILD|GIT|RATE|DISK|BERTH|SMTP|MAIL|CHUNKED|CAPTCHA|BLOCKED)_|^(BASE_URL|NGINX|ALLOW_PLAIN_HTTP|DOCKER_HOST|APPS_DOMAIN|BIND_ADDRESS|LOG_LEVEL|QUEUE_PREFIX|APP_CONFIG_NAMES|PLANS_FILE|TRUSTED_PROXIES|CONTAINER_RUNTIME|HEALTH_GATE_SECONDS|HISTORY_DAYS|DEPLOYMENT_LOG_DAYS|ARCHIVE_DAYS)$/

/** The settings of Berth in an environment, kept so that later commands see what the start saw. */
export function ownSettings(env: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        ownNames.test(entry[0]) && entry[0] !== ownerSetting && entry[1] !== undefined,
    ),
  )
}

/** The one setting that is for the start alone, and for no process. */
export const ownerSetting = 'DATABASE_OWNER_URL'

/** Where the schema is changed: the login that owns it, or the processes' own where there is one login only. */
export function ownerUrl({ config, external, ports, secrets }: Installation): string {
  if (!external.postgres) return postgresUrl(ports.POSTGRES_PORT, secrets.databasePassword, 'berth')
  return config.databaseOwnerUrl ?? config.databaseUrl
}

function movedPorts(env: Environment, ports: Ports): string | null {
  const moved = (Object.keys(ports) as PortName[]).filter(name => !env[name] && ports[name] !== portDefaults[name])
  if (moved.length === 0) return null
  return `Some default ports are taken; these are used instead: ${moved.map(name => `${name}=${ports[name]}`).join(' ')}`
}

function findCheckout(from: string): string {
  const parent = dirname(from)
  return parent.endsWith('/dist') ? dirname(parent) : parent
}

function readJson<T>(path: string): T | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch {
    return null
  }
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(`${path}.new`, JSON.stringify(value), { mode: 0o600 })
  renameSync(`${path}.new`, path)
}
