import { type CaptchaSettings, captchaSettings } from './accounts/captcha.ts'
import { countryCodes } from './accounts/countries.ts'
import { earlierKeyChecks } from './accounts/credentials.ts'
import { type AiSettings, aiSettings } from './ai/ai-settings.ts'
import { type DatabaseSettings, databaseSettings } from './databases/database-settings.ts'
import { type DomainSettings, domainSettings } from './domains/domain-settings.ts'
import { type EdgeSettings, edgeSettings } from './edge/edge-settings.ts'
import { absolute, type Environment, integer, list, number, oneOf, required, withoutEmpty } from './environment.ts'
import { type GitProviderSettings, gitProviderSettings } from './git/git-provider-settings.ts'
import { type GitProxySettings, gitProxySettings } from './git/git-proxy.ts'
import { type BuildSettings, buildSettings } from './hosts/build-settings.ts'
import { type WarmLanguages, warmLanguages } from './hosts/warm-images.ts'
import { type TemporalSettings, temporalSettings } from './installation/temporal-settings.ts'
import { type MailSettings, mailSettings } from './mail/settings.ts'
import {
  type AddressDatabases,
  type AnalyticsSettings,
  addressDatabases,
  analyticsSettings,
} from './network/analytics-settings.ts'
import { type BlobSettings, blobSettings } from './objects/blob-settings.ts'
import { type NamedRegistries, namedRegistries } from './packages/registries.ts'
import { type Retention, retentionSettings } from './retention.ts'
import { type SealKeys, sealKeys } from './seal.ts'

export type { Environment }

/**
 * The environment, parsed once. Only `workers/` and `cli/` read `process.env`; everything else receives a `Config` or a value of it.
 * Every setting has a row here with its default, and its unit in its name.
 */
export interface Config {
  dataDir: string
  logLevel: string
  databaseUrl: string
  /** Role that owns the schema, used for set-up only; null = that of the processes. */
  databaseOwnerUrl: string | null
  databasePool: number
  temporalAddress: string
  temporalNamespace: string
  temporalTls: TemporalSettings['temporalTls']
  temporalApiKey: TemporalSettings['temporalApiKey']
  /** Prefix of every task queue name, so that test runs can share one Temporal. */
  queuePrefix: string
  temporalUiUrl: string | null
  objectStore: ObjectStoreConfig
  /** Ports that the API process listens on, one per surface; 0 = any free one. */
  ports: { base: number; blob: number; s3: number; files: number; public: number }
  bind: string
  apiProcesses: number
  urls: { base: string; blob: string; s3: string; files: string; public: string; edge: string; temporalUi: string }
  /** Other machines may reach the platform without TLS. */
  allowPlainHttp: boolean
  appsDomain: string
  edge: EdgeSettings
  domains: DomainSettings
  host: {
    id: string
    address: string
    dockerHost: string
    memoryMb: number | null
    /** MB of disk that it promises; null = by what is free. */
    promisedDiskMb: number | null
    streamPort: number
    diskMbPer256Mb: number
    /** What one container may read, and write, per second; 0 = no limit. */
    disk: { mbps: number; iops: number }
    /** What an application may send, and receive, per 256 MB of its memory; 0 = no limit. */
    mbitPer256Mb: number
    quota: 'auto' | 'off'
    firewall: 'auto' | 'off'
    healthGateSeconds: number
    /** Concurrent fetches and builds. */
    buildSlots: number
    warmLanguages: WarmLanguages
    /** Max size of its cache of install results; 0 = none. */
    installCacheMb: number
    /** Max size of its cache of packages, 0 = none, and the registries that operators have named for it. */
    packages: { cacheMb: number; named: NamedRegistries }
    /** What builds trust, and their proxy. */
    builds: BuildSettings
    runtime: 'runc' | 'runsc'
  }
  git: GitSettings
  /** Null: repositories cannot be linked. */
  gitProvider: GitProviderSettings | null
  mail: MailSettings
  blob: BlobSettings
  databases: DatabaseSettings
  ai: AiSettings
  analytics: AnalyticsSettings
  addresses: AddressDatabases
  retention: Retention
  appConfigNames: string[]
  /** Two-letter codes of countries that are refused. */
  blockedCountries: string[]
  /** Null: no country must solve a captcha. */
  captcha: CaptchaSettings | null
  rateLimitScale: number
  rateLimitBlockSeconds: number
  /** Root secret of this installation: 32 bytes, hex. Key checks, session signing and encryption derive from it. */
  masterKey: string
  /** Check keys of earlier root secrets, so that API keys stay valid after a rotation. */
  earlierKeyChecks: Buffer[]
  /** Keys that seal secrets in columns: one derived from the root secret, and those that rotations have added. */
  sealKeys: SealKeys
  plansFile: string | null
  trustedProxies: string[]
}

interface GitSettings {
  /** Max size of a commit's download, and of its files. */
  maxMb: number
  timeoutSeconds: number
  /** Servers (`host:port`) that may be fetched from although their addresses are private. */
  allowedHosts: string[]
  proxy: GitProxySettings
}

export type ObjectStoreConfig =
  | { kind: 'filesystem'; folder: string }
  | { kind: 's3'; endpoint: string; bucket: string; region: string; accessKeyId: string; secretAccessKey: string }

/** Parses the environment, in which an empty setting is missing. Throws an Error that names the setting and what it accepts. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a flat list, in which each default counts as a branch
export function parseConfig(environment: Environment, cwd: string): Config {
  const env = withoutEmpty(environment)
  const dataDir = absolute(env.BERTH_DATA ?? 'data', cwd)
  const bind = env.BIND_ADDRESS ?? '127.0.0.1'
  const ports = {
    base: integer(env, 'API_PORT', 4000),
    blob: integer(env, 'BLOB_PORT', 4001),
    s3: integer(env, 'S3_PORT', 4002),
    files: integer(env, 'FILES_PORT', 4003),
    public: integer(env, 'PUBLIC_PORT', 4004),
  }
  const edgePort = integer(env, 'EDGE_PORT', 8080)
  const domain = env.BERTH_DOMAIN ?? 'localhost'
  const appsDomain = env.APPS_DOMAIN ?? `apps.${domain}`
  const local = (port: number, protocol = 'http') => `${protocol}://127.0.0.1:${port}`
  const edge = edgeSettings(env, cwd, { dataDir, domain, port: edgePort })
  return {
    dataDir,
    logLevel: env.LOG_LEVEL ?? 'info',
    databaseUrl: env.DATABASE_URL ?? 'postgres://berth@127.0.0.1:5432/berth',
    databaseOwnerUrl: env.DATABASE_OWNER_URL ?? null,
    databasePool: integer(env, 'DATABASE_POOL', 10),
    temporalNamespace: env.TEMPORAL_NAMESPACE ?? 'default',
    ...temporalSettings(env),
    queuePrefix: env.QUEUE_PREFIX ?? '',
    temporalUiUrl: env.TEMPORAL_UI_URL ?? null,
    objectStore: objectStore(env, dataDir),
    ports,
    bind,
    apiProcesses: integer(env, 'API_PROCESSES', 1),
    urls: {
      base: env.BASE_URL ?? local(ports.base),
      blob: env.BLOB_URL ?? local(ports.blob),
      s3: env.S3_URL ?? local(ports.s3),
      files: env.FILES_URL ?? local(ports.files),
      public: env.PUBLIC_URL ?? local(ports.public),
      edge: env.EDGE_URL ?? (edge.tls ? local(edge.tls.port, 'https') : local(edgePort)),
      temporalUi: env.TEMPORAL_UI_URL ?? 'http://127.0.0.1:8233',
    },
    allowPlainHttp: oneOf(env, 'ALLOW_PLAIN_HTTP', ['off', 'on']) === 'on',
    appsDomain,
    edge,
    domains: domainSettings(env),
    host: {
      id: env.HOST_NAME ?? 'local',
      address: env.HOST_ADDRESS ?? '127.0.0.1',
      dockerHost: env.DOCKER_HOST ?? 'unix:///var/run/docker.sock',
      memoryMb: env.HOST_MEMORY_MB === undefined ? null : integer(env, 'HOST_MEMORY_MB', 0),
      promisedDiskMb: env.HOST_DISK_MB === undefined ? null : integer(env, 'HOST_DISK_MB', 0),
      streamPort: integer(env, 'HOST_STREAM_PORT', 0),
      diskMbPer256Mb: integer(env, 'DISK_MB_PER_256MB', 1024),
      disk: { mbps: integer(env, 'HOST_DISK_MBPS', 100), iops: integer(env, 'HOST_DISK_IOPS', 2000) },
      mbitPer256Mb: integer(env, 'HOST_BANDWIDTH_MBIT', 50),
      quota: oneOf(env, 'HOST_QUOTA', ['auto', 'off']),
      firewall: oneOf(env, 'HOST_FIREWALL', ['auto', 'off']),
      healthGateSeconds: integer(env, 'HEALTH_GATE_SECONDS', 60),
      buildSlots: Math.max(1, integer(env, 'BUILD_SLOTS', 2)),
      warmLanguages: warmLanguages(env),
      installCacheMb: integer(env, 'INSTALL_CACHE_MB', 4096),
      packages: { cacheMb: integer(env, 'PACKAGE_CACHE_MB', 2048), named: namedRegistries(env) },
      builds: buildSettings(env, cwd),
      runtime: oneOf(env, 'CONTAINER_RUNTIME', ['runc', 'runsc']),
    },
    git: {
      maxMb: integer(env, 'GIT_MAX_MB', 100),
      timeoutSeconds: integer(env, 'GIT_TIMEOUT_SECONDS', 120),
      allowedHosts: list(env.GIT_ALLOWED_HOSTS),
      proxy: gitProxySettings(env),
    },
    gitProvider: gitProviderSettings(env),
    mail: mailSettings({ url: env.SMTP_URL, from: env.MAIL_FROM }, `${dataDir}/mail`, domain),
    blob: blobSettings(env),
    databases: databaseSettings(env, appsDomain),
    ai: aiSettings(env),
    analytics: analyticsSettings(env),
    addresses: addressDatabases(env, cwd),
    retention: retentionSettings(env),
    appConfigNames: list(env.APP_CONFIG_NAMES),
    blockedCountries: countryCodes('BLOCKED_COUNTRIES', list(env.BLOCKED_COUNTRIES)),
    captcha: captchaSettings(env),
    rateLimitScale: number(env, 'RATE_LIMIT_SCALE', 1),
    rateLimitBlockSeconds: integer(env, 'RATE_LIMIT_BLOCK_SECONDS', 1800),
    masterKey: env.BERTH_MASTER_KEY ?? '',
    earlierKeyChecks: earlierKeyChecks(list(env.BERTH_EARLIER_KEY_CHECKS)),
    sealKeys: sealKeys(env.BERTH_MASTER_KEY ?? '', env.BERTH_SEAL_KEYS),
    plansFile: env.PLANS_FILE ? absolute(env.PLANS_FILE, cwd) : null,
    trustedProxies: list(env.TRUSTED_PROXIES),
  }
}

function objectStore(env: Environment, dataDir: string): ObjectStoreConfig {
  const kind = oneOf(env, 'OBJECT_STORE', ['filesystem', 's3', 's3rver'])
  if (kind === 'filesystem') return { kind, folder: env.OBJECT_STORE_FOLDER ?? `${dataDir}/objects` }
  return {
    kind: 's3',
    endpoint: required(env, 'S3_STORE_ENDPOINT'),
    bucket: env.S3_STORE_BUCKET ?? 'berth',
    region: env.S3_STORE_REGION ?? 'us-east-1',
    accessKeyId: required(env, 'S3_STORE_ACCESS_KEY_ID'),
    secretAccessKey: required(env, 'S3_STORE_SECRET_ACCESS_KEY'),
  }
}
