import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Config, type Environment, parseConfig } from '../../policy/config.ts'
import { valuesInPlace } from '../../policy/installation/outside-secrets.ts'
import { toyModelName } from '../../workers/toy-model/text-generator.ts'
import { postgresUrl, processUrl } from '../services/postgres.ts'
import { dataFolder, makeDataFolder } from './data-folder.ts'
import { createInside, mustBeOwn } from './folder-owner.ts'
import { choosePorts, type PortName, type Ports, portDefaults } from './ports.ts'
import { openSecrets, type Secrets, sealKeysText, secretsForStart } from './secrets.ts'

/** The checkout of this command: `cli` is in it, or in its `dist`. */
export const checkout = findCheckout(dirname(dirname(fileURLToPath(import.meta.url))))

/** A platform on this machine, with the settings that its processes see. */
export interface Installation {
  dataDir: string
  runFolder: string
  logFolder: string
  /** Settings of Berth only; processes get them on top of the caller's environment. */
  settings: Record<string, string>
  config: Config
  ports: Ports
  secrets: Secrets
  /** Parts that Berth does not start, because settings name them. */
  external: { postgres: boolean; temporal: boolean }
  /** Sentences for the summary. */
  notes: string[]
  /** Its processes are containers, and every setting comes from the environment. */
  inContainers?: boolean
  /** This start runs a toy model, and the AI gateway uses it. */
  runsToyModel?: boolean
  /** Folder and object store become this database's, whichever installation they belonged to. */
  adopts?: boolean
}

export class NotRunning extends Error {
  override name = 'NotRunning'
}

/** The data folder that these settings name. */
export function dataDirOf(env: Environment): string {
  return dataFolder(env.BERTH_DATA, checkout)
}

/** The same for commands that use the folder's content. Throws an Error when it belongs to another user. */
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

/** Creates the data folder and the folders that every command expects in it. Throws an Error that says what to do if this user may not. */
export function openDataPlace(env: Environment): DataPlace {
  const wanted = ownDataDir(env)
  return createInside(wanted, () => {
    const { folder: dataDir, note } = makeDataFolder(wanted, checkout)
    const place = { dataDir, runFolder: join(dataDir, 'run'), logFolder: join(dataDir, 'logs'), note }
    for (const folder of [place.runFolder, place.logFolder]) mkdirSync(folder, { recursive: true, mode: 0o755 })
    return place
  })
}

/** Creates missing secrets, chooses ports, and fixes every setting for this start; with `ai`, it runs a toy model unless another one is set. */
export async function openInstallation(
  env: Environment,
  { note, ...place }: DataPlace,
  { ai = false }: { ai?: boolean } = {},
): Promise<Installation> {
  const { dataDir, runFolder } = place
  const secrets = secretsForStart(dataDir)
  const ports = await choosePorts(env, readJson(join(runFolder, 'ports.json')) ?? {})
  const external = { postgres: Boolean(env.DATABASE_URL), temporal: Boolean(env.TEMPORAL_ADDRESS) }
  const runsToyModel = ai && !env.AI_UPSTREAM_URL
  const own = { ...settingsFor(env, dataDir, ports, secrets), ...(runsToyModel ? toyModelSettings(ports) : {}) }
  const settings = { ...own, ...valuesInPlace({ ...env, ...own }, secrets.outside) }
  const notes = [note, movedPorts(env, ports), ai && !runsToyModel ? otherModel : null].filter(line => line !== null)
  const config = parseConfig({ ...env, ...settings }, checkout)
  writeJson(join(runFolder, 'ports.json'), ports)
  const saved: SavedStart = { settings: { ...ownSettings(env), ...settings }, external, ports, runsToyModel }
  writeJson(join(runFolder, 'settings.json'), saved)
  return { ...place, settings, config, ports, secrets, external, notes, runsToyModel }
}

/** Why a start with `--ai` runs no toy model. */
export const otherModel =
  'The toy model was not started: AI_UPSTREAM_URL names another model. To try the toy, remove that setting.'

/** The settings of the AI gateway for the toy model: its address and its name. */
function toyModelSettings({ TOY_MODEL_PORT: port }: Ports): Record<string, string> {
  return { AI_UPSTREAM_URL: `http://127.0.0.1:${port}/v1`, AI_UPSTREAM_MODEL: toyModelName }
}

type SavedStart = Pick<Installation, 'settings' | 'external' | 'ports' | 'inContainers' | 'runsToyModel'>

/** The installation with the settings of its last start, or of its containers' environment. Throws `NotRunning` when there is neither. */
export function loadInstallation(env: Environment): Installation {
  const dataDir = dataDirOf(env)
  const runFolder = join(dataDir, 'run')
  const saved = savedStart(join(runFolder, 'settings.json')) ?? containerStart(env)
  if (!saved) throw new NotRunning(`Berth has not been started with its data in ${dataDir}. Start it with: berth up`)
  const secrets = existsSync(join(runFolder, 'settings.json')) ? openSecrets(dataDir) : containerSecrets(env)
  const given = { ...env, ...saved.settings }
  const settings = { ...saved.settings, ...valuesInPlace(given, secrets.outside) }
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

/** What the last start saved. Throws `NotRunning` when another user started it. */
function savedStart(path: string): SavedStart | null {
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return null
    throw new NotRunning(
      `Berth was started by another user here, and ${path} belongs to that user. Run this command as that user.`,
    )
  }
  return readJson<SavedStart>(path)
}

/** An installation in containers takes every setting from the environment, and chooses and saves nothing. */
function containerStart(env: Environment): SavedStart | null {
  if (!env.DATABASE_URL || !env.BERTH_MASTER_KEY) return null
  const settings = ownSettings(env)
  return { settings, external: { postgres: true, temporal: true }, ports: portDefaults, inContainers: true }
}

/** Writes nothing: the container may have no right to write to the folder. */
function containerSecrets(env: Environment): Secrets {
  return { masterKey: env.BERTH_MASTER_KEY ?? '', databasePassword: '', installationId: '' }
}

/** The environment wins; other settings follow from ports and secrets. */
function settingsFor(
  env: Environment,
  dataDir: string,
  ports: Ports,
  secrets: ReturnType<typeof secretsForStart>,
): Record<string, string> {
  const s3rver = env.OBJECT_STORE === 's3rver'
  return {
    BERTH_DATA: dataDir,
    // Our proxy connects from loopback, and its client addresses are trusted.
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
          S3_STORE_ACCESS_KEY_ID: 'S3RVER', // the only account of s3rver
          S3_STORE_SECRET_ACCESS_KEY: 'S3RVER',
        }
      : {}),
  }
}

const ownNames =
  /^(AI|API|BLOB|S3|FILES|PUBLIC|EDGE|HOST|TEMPORAL|DATABASE|OBJECT|BUILD|GIT|RATE|DISK|BERTH|SMTP|MAIL|CHUNKED|CAPTCHA|BLOCKED|ACME|ANALYTICS)_|^(ANALYTICS|COUNTRY_DATABASE|ASN_DATABASE|BASE_URL|NGINX|ALLOW_PLAIN_HTTP|DOCKER_HOST|APPS_DOMAIN|BIND_ADDRESS|LOG_LEVEL|QUEUE_PREFIX|APP_CONFIG_NAMES|PLANS_FILE|TRUSTED_PROXIES|CONTAINER_RUNTIME|HEALTH_GATE_SECONDS|HISTORY_DAYS|DEPLOYMENT_LOG_DAYS|ARCHIVE_DAYS|POINT_IN_TIME_DAYS|INSTALL_CACHE_MB|PACKAGE_CACHE_(MB|NPM|PIP|GO|CARGO|MAVEN|BUNDLER)|MONGO_STAND_IN|WARM_IMAGES|DNS_SERVERS)$/

/** The settings of Berth in an environment, saved so that later commands see the same ones as the start. */
export function ownSettings(env: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        ownNames.test(entry[0]) && entry[0] !== ownerSetting && entry[1] !== undefined,
    ),
  )
}

/** The only setting that the start uses and no process gets. */
export const ownerSetting = 'DATABASE_OWNER_URL'

/** The address for schema changes: with the login that owns the schema, or with the processes' login if there is only one. */
export function ownerUrl({ config, external, ports, secrets }: Installation): string {
  if (!external.postgres) return postgresUrl(ports.POSTGRES_PORT, secrets.databasePassword, 'berth')
  return config.databaseOwnerUrl ?? config.databaseUrl
}

function movedPorts(env: Environment, ports: Ports): string | null {
  const moved = (Object.keys(ports) as PortName[]).filter(name => !env[name] && ports[name] !== portDefaults[name])
  if (moved.length === 0) return null
  return `Some default ports are in use; Berth uses these instead: ${moved.map(name => `${name}=${ports[name]}`).join(' ')}`
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
