import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import test from 'ava'
import type { Archives } from '../../../activities/archives/port.ts'
import { archives } from '../../../activities/archives/process.ts'
import { domainRecords } from '../../../activities/dns/domain-records.ts'
import { jsonSurface, surfaces } from '../../../api/app.ts'
import { hostCall } from '../../../api/hosts/host-call.ts'
import { httpHostFiles } from '../../../api/hosts/host-files.ts'
import { LiveFeeds } from '../../../api/hosts/live-feeds.ts'
import { NetworkRates } from '../../../api/hosts/network-rates.ts'
import { RealtimeLeases } from '../../../api/hosts/realtime-leases.ts'
import { StreamAccess } from '../../../api/hosts/stream-access.ts'
import { hardenedServer } from '../../../api/http/server.ts'
import { RememberedAnswers } from '../../../api/network/remembered-answers.ts'
import { authenticator } from '../../../api/pipeline/authenticate.ts'
import type { Log } from '../../../api/pipeline/core-services.ts'
import { EarlierCredentials } from '../../../api/pipeline/earlier-credentials.ts'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { Limiter } from '../../../api/pipeline/limiter.ts'
import { openApi } from '../../../api/pipeline/openapi.ts'
import { RowNotifications } from '../../../api/pipeline/row-notifications.ts'
import { malformedS3 } from '../../../api/s3/answers.ts'
import { s3Credentials } from '../../../api/s3/credentials.ts'
import type { Services } from '../../../api/services.ts'
import { ServiceStatus } from '../../../api/status/service-status.ts'
import { ChatCalls } from '../../../api/v2/ai/chat-calls.ts'
import { Outcomes } from '../../../api/v2/apps/outcomes.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'
import { DeploySourceCache } from '../../../api/v2/git/deploy-sources.ts'
import * as accounts from '../../../db/accounts/accounts.ts'
import { createApp } from '../../../db/apps/app-creation.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import type { DatabaseCreation } from '../../../db/databases/database-creation.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { readDeploySources } from '../../../db/deploys/deploy-sources.ts'
import { pushes } from '../../../db/git/pushes.ts'
import { registerHost } from '../../../db/hosts/hosts.ts'
import { Notifications } from '../../../db/notifications.ts'
import { SegmentIds } from '../../../db/objects/segment-ids.ts'
import * as segments from '../../../db/objects/segments.ts'
import { StorageQuota } from '../../../db/objects/storage-quota.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { checksumsReady } from '../../../lib/checksums.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import type { Scope } from '../../../policy/accounts/scopes.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'
import { type Config, parseConfig } from '../../../policy/config.ts'
import { wholeLogs } from '../../../policy/limits.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { commandTimeouts } from '../../../policy/timeouts.ts'
import { testAddresses } from '../analytics/addresses.ts'
import { FailingStore } from '../fakes/failing-store.ts'
import { RecountedAnalytics } from '../fakes/recounted-analytics.ts'
import { ScriptedDatabaseLanes } from '../fakes/scripted-database-lanes.ts'
import { ScriptedHosts } from '../fakes/scripted-hosts.ts'
import { ScriptedDowngrades, ScriptedLanes } from '../fakes/scripted-lanes.ts'
import { makeDatabase, readyImages } from '../rows/databases.ts'
import { plansOfMemory } from '../rows/rows.ts'
import { type TestDatabase, testDatabase } from '../servers/database.ts'

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  body: any
  text: string
  headers: Headers
}

/** The code of a refusal; that of the AI wire in the spelling of the others. */
export const codeOf = ({ body }: Pick<Answer, 'body'>): string | undefined =>
  body?.code ?? body?.error?.code.toUpperCase()

/** Someone who speaks HTTP with one credential, or none. */
export interface Actor {
  request(method: string, path: string, init?: RequestInit): Promise<Answer>
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, body?: RequestInit['body'], headers?: Record<string, string>): Promise<Answer>
  delete(path: string): Promise<Answer>
}

export interface TestUser {
  id: string
  key: string
  session: string
  sessionId: string
  keyId: string
}

export interface TestApi {
  db: Db
  url: string
  publicUrl: string
  filesUrl: string
  blobUrl: string
  s3Url: string
  server: Server
  services: Services
  store: FailingStore
  hosts: ScriptedHosts
  lanes: ScriptedLanes
  databaseLanes: ScriptedDatabaseLanes
  downgrades: ScriptedDowngrades
  analytics: RecountedAnalytics
  /** Undeclared codes and answers that are not of their schema. Checked after each file. */
  breaches: string[]
  as(credential: string | TestUser | undefined): Actor
  /** As `as`, on the blob API. */
  blobAs(credential: string | TestUser | undefined): Actor
  makeUser(input?: { plan?: string; name?: string; planEndsAt?: Date }): Promise<TestUser>
  makeKey(
    user: TestUser,
    input: { scopes?: Scope[]; resources?: string[]; prefixes?: string[]; expiresAt?: Date },
  ): Promise<{ id: string; key: string }>
  makeApp(user: TestUser, config?: Partial<AppConfigFile>): Promise<AppRow>
  /** One that runs; Redis with 512 MB unless `changes` say otherwise. */
  makeDatabase(user: TestUser, changes?: Partial<DatabaseCreation>): Promise<DatabaseRow>
}

export const masterKey = randomBytes(32).toString('hex')
export const testKeys = sealKeys(masterKey)

export interface TestApiOptions {
  scale?: number
  extra?: readonly Endpoint[]
  services?: (services: Services) => Partial<Services>
  config?: Partial<Config>
}

/** Call it once at the top level of a test file: the API in this process, on a real database of its own. */
export function testApi(options: TestApiOptions = {}): () => TestApi {
  let api: TestApi
  const undo: (() => Promise<unknown>)[] = []
  // Serial: the database that it uses is removed after it.
  test.serial.after.always('stop the API', async t => {
    for (const step of undo.reverse()) await step()
    t.deepEqual(api?.breaches ?? [], [])
  })
  const database = testDatabase()
  test.before('start the API', async () => {
    const { db } = await database
    await registerHost(db, {
      id: 'h1',
      address: '127.0.0.1',
      readUrl: 'http://127.0.0.1:1',
      memoryMb: 10_000_000,
      diskMb: 10_000_000,
      protections: {},
    })
    await db('hosts').update({ last_seen_at: '2100-01-01', database_images: JSON.stringify(readyImages) })
    api = await openApiFor(await database, options, undo)
  })
  return () => api
}

/** One more API process, as far as limits and operations can tell, on the same database. */
export async function openApiFor(
  database: TestDatabase,
  options: TestApiOptions,
  undo: (() => Promise<unknown>)[],
): Promise<TestApi> {
  const { db } = database
  const config = {
    ...parseConfig({ BERTH_MASTER_KEY: masterKey, RATE_LIMIT_SCALE: String(options.scale ?? 1000) }, '/'),
    ...options.config,
  }
  await checksumsReady
  const notifications = new Notifications(database.url, [
    'operations',
    'deployments',
    'deploy-sources',
    'access',
    'apps',
  ])
  const zips: Archives = archives()
  const breaches: string[] = []
  const made = {
    store: await FailingStore.open(),
    hosts: new ScriptedHosts(),
    lanes: new ScriptedLanes(db),
    databaseLanes: new ScriptedDatabaseLanes(db, config.sealKeys),
    downgrades: new ScriptedDowngrades(db, defaultPlans),
    analytics: new RecountedAnalytics(await testAddresses()),
  }
  const authenticate = authenticator({ db, masterKey, plans: defaultPlans, processes: config.apiProcesses })
  const rates = new NetworkRates()
  const base: Services = {
    ...made,
    db,
    config,
    files: httpHostFiles(hostCall(db, masterKey)),
    plans: defaultPlans,
    authenticate,
    findS3Credential: s3Credentials({ db, masterKey, plans: defaultPlans }),
    segmentIds: new SegmentIds(db),
    quota: new StorageQuota(db),
    limiter: new Limiter(db),
    archives: zips,
    domains: { wake: async () => {} },
    domainRecords: domainRecords({ look: async () => ({ records: [] }) }, config),
    dnsRecords: new TtlCache(cachedSeconds.dnsRecords),
    outcomes: new Outcomes(notifications),
    deploymentNotifications: new RowNotifications(notifications, 'deployments'),
    logSlots: new FairSlots(wholeLogs),
    pushes,
    timeouts: commandTimeouts,
    rates,
    analytics: made.analytics,
    networkAnswers: new RememberedAnswers(),
    chatCalls: new ChatCalls({ db, log: silent, model: null, countTokens: null, searches: false, dailyTokens: null }),
    resolvesName: async () => ['127.0.0.1'],
    live: new LiveFeeds((app, signal) => made.hosts.live(app, signal), rates),
    leases: new RealtimeLeases(db, config.rateLimitScale),
    access: new StreamAccess({ authenticate, db }, notifications),
    accountSnapshots: new TtlCache(cachedSeconds.accountSnapshots),
    blobUsage: new TtlCache(cachedSeconds.blobStats),
    metrics: new TtlCache(cachedSeconds.metrics),
    gitProvider: null,
    sources: new DeploySourceCache(notifications, appId => readDeploySources(db, config.sealKeys, appId)),
    earlier: new EarlierCredentials(db),
    service: new ServiceStatus([]),
    isInside: () => true,
    isBlocked: () => false,
    asksCaptcha: () => false,
    captcha: null,
    log: silent,
    contract: watch(breaches),
  }
  const services = { ...base, ...options.services?.(base) }
  const management = jsonSurface(services, [
    ...endpoints,
    openApi(endpoints, config.urls.base),
    ...(options.extra ?? []),
  ])
  const limits = { connections: 2000, connectionsPerAddress: 100, unlimited: () => true }
  const server = hardenedServer(management.callback(), limits)
  const others = surfaces(services)
  const open = createServer(others.public.callback())
  const files = createServer(others.files.callback())
  const blob = hardenedServer(others.blob.callback(), limits)
  const s3 = hardenedServer(others.s3.callback(), limits, malformedS3)
  const [url, publicUrl, filesUrl, blobUrl, s3Url] = (await Promise.all(
    [server, open, files, blob, s3].map(listening),
  )) as [string, string, string, string, string]
  await notifications.open()
  undo.push(
    () => made.store.close(),
    () => zips.close(),
    () => notifications.close(),
    () => closed(open),
    () => closed(files),
    () => closed(blob),
    () => closed(s3),
    () => closed(server),
    async () => {
      made.lanes.over = true
      made.databaseLanes.over = true
      made.downgrades.over = true
    },
  )
  const blobAs = actors(blobUrl).as
  return {
    ...made,
    db,
    url,
    publicUrl,
    filesUrl,
    blobUrl,
    s3Url,
    blobAs,
    server,
    services,
    breaches,
    ...actors(url),
    ...makers(db),
  }
}

export function actors(url: string): Pick<TestApi, 'as'> {
  return {
    as(who) {
      const credential = typeof who === 'object' ? who.key : who
      async function request(method: string, path: string, init: RequestInit = {}): Promise<Answer> {
        const headers = {
          ...(credential && { authorization: credential }),
          ...(init.headers as Record<string, string>),
        }
        const response = await fetch(url + path, { ...init, method, headers, redirect: 'manual' })
        const text = await response.text()
        const json = response.headers.get('content-type')?.startsWith('application/json')
        return { status: response.status, text, body: json ? JSON.parse(text) : text, headers: response.headers }
      }
      return {
        request,
        get: (path, headers) => request('GET', path, { headers }),
        post: (path, body, headers) => request('POST', path, { body, headers }),
        delete: path => request('DELETE', path),
      }
    },
  }
}

function makers(db: Db): Pick<TestApi, 'makeUser' | 'makeKey' | 'makeApp' | 'makeDatabase'> {
  return {
    async makeUser({ plan = 'enterprise-32', name = 'Ana', planEndsAt } = {}) {
      const user = await accounts.createUser(db, {
        name,
        email: `${randomBytes(6).toString('hex')}@example.org`,
        plan,
        planEndsAt,
      })
      const { key, id: keyId } = await accounts.createKey(db, masterKey, { userId: user.id })
      const { token, id: sessionId } = await accounts.createSession(db, masterKey, {
        userId: user.id,
        lifeSeconds: 3600,
      })
      return { id: user.id, key, keyId, session: token, sessionId }
    },
    makeDatabase: (user, changes) => makeDatabase(db, testKeys, user.id, changes),
    makeKey: (user, input) => accounts.createKey(db, masterKey, { userId: user.id, ...input }),
    async makeApp(user, config) {
      const segmentId = await segments.allocateSegment(db)
      const { app, operationId } = await createApp(db, {
        ownerId: user.id,
        plans: plansOfMemory(1_000_000),
        config: { ...plainApp, ...config },
        segmentId,
        archiveSha256: 'a'.repeat(64),
        archiveBytes: 1,
        actor: user.id,
      })
      await db('operations').where({ id: operationId }).update({ state: 'success', finished_at: db.fn.now() })
      return app
    },
  }
}

const plainApp: AppConfigFile = {
  displayName: 'shop',
  description: null,
  main: 'index.js',
  memoryMb: 256,
  version: 'recommended',
  subdomain: null,
  start: null,
  autorestart: false,
  runtime: null,
  language: 'javascript',
  health: null,
  runtimeVersion: '22',
}

const silent: Log = { info: () => {}, warn: () => {}, error: () => {} }

function watch(breaches: string[]): Services['contract'] {
  return {
    undeclared: (endpoint, code, declared) => void breaches.push(`${endpoint} threw ${code}, of ${declared}`),
    answered(endpoint, value, schema) {
      const parsed = schema?.safeParse(value)
      if (parsed?.error) breaches.push(`${endpoint} answered ${JSON.stringify(value)}: ${parsed.error.message}`)
    },
  }
}

export function listening(server: Server): Promise<string> {
  return new Promise(resolve =>
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)),
  )
}

function closed(server: Server): Promise<unknown> {
  const end = new Promise(resolve => server.close(resolve))
  server.closeAllConnections()
  return end
}
