import { randomBytes, randomInt } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { type Logger, pino } from 'pino'
import { domainRecords } from '../../../activities/dns/domain-records.ts'
import { resolverDns } from '../../../activities/dns/resolver.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { openObjectStore } from '../../../activities/objects/select.ts'
import { hostCall } from '../../../api/hosts/host-call.ts'
import { httpHostReader } from '../../../api/hosts/host-reader.ts'
import { hostLive } from '../../../api/hosts/live-events.ts'
import { LiveFeeds } from '../../../api/hosts/live-feeds.ts'
import type { Services } from '../../../api/services.ts'
import { resolvesNames } from '../../../api/v2/databases/database-address.ts'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { type AppRow, loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { SegmentIds } from '../../../db/objects/segment-ids.ts'
import * as operations from '../../../db/operations/operations.ts'
import { thisMachine } from '../../../lib/machine.ts'
import { type Config, parseConfig } from '../../../policy/config.ts'
import { installationMark } from '../../../policy/ids.ts'
import { openChatCalls } from '../../../workers/adapters/chat-calls.ts'
import { openTemporal } from '../../../workers/connect.ts'
import { type HostParts, openHost } from '../../../workers/host/host-parts.ts'
import { startHost } from '../../../workers/host/host-worker.ts'
import { startPlatformWorker } from '../../../workers/platform-worker.ts'
import { temporalDomains } from '../../../workers/temporal/domains.ts'
import { temporalDowngrades } from '../../../workers/temporal/downgrades.ts'
import { temporalDatabaseLanes, temporalLanes } from '../../../workers/temporal/lanes.ts'
import { type Answer, masterKey, openApiFor, type TestApi, type TestUser } from '../actors/api.ts'
import { lookingAgain } from '../comes-true.ts'
import { clearHost, remainsOf } from '../hosts/host-remains.ts'
import { sweep } from '../objects/sweep.ts'
import { configOf, type Program } from '../programs.ts'
import { type TestDatabase, testDatabase } from '../servers/database.ts'
import { ask, type Call, type Seen } from '../servers/origin.ts'
import { startProxy, type TestProxy } from '../servers/proxy.ts'
import { type TestTemporal, testTemporal } from '../servers/temporal.ts'
import { zipOf } from '../zips.ts'
import { type Entry, startEntry } from './entry.ts'

export const log = pino({ level: process.env.TEST_LOG ?? 'silent' })

export interface RunningHost {
  id: string
  parts: HostParts
  /** Leaves on purpose, as a process does on SIGTERM. */
  stop(): Promise<void>
}

export interface Deployed extends Answer {
  id: string
  domain: string
  operationId: string
}

type Settings = Record<string, string>

export interface PlatformOptions {
  /** Hosts that are started immediately, by short name, with their settings. */
  hosts?: Record<string, Record<string, string>>
  settings?: Settings | ((proxy: TestProxy) => Promise<Settings>)
  /** Settings of the proxy. */
  edge?: Settings
  database?: () => Promise<TestDatabase>
  temporal?: () => Promise<TestTemporal>
  /** False = not in this process: the test starts its own. */
  api?: boolean
  worker?: boolean
  /** Where its parts in this process log to. */
  log?: Logger
}

/** Call it once at the top level of a test file: a whole platform on real parts, removed after the file. */
export function testPlatform(options: PlatformOptions = {}): Promise<TestPlatform> {
  const undo: (() => Promise<unknown>)[] = []
  // Serial: the services that it uses are removed after it.
  test.serial.after.always('take the platform away', async () => {
    const failures: unknown[] = []
    for (const step of undo.reverse()) await step().catch(error => failures.push(error))
    if (failures.length > 0) throw failures.length > 1 ? new AggregateError(failures) : failures[0]
  })
  const parts = [(options.database ?? testDatabase)(), (options.temporal ?? testTemporal)()] as const
  const platform = start(options, parts, undo)
  test.before('start the platform', async t => {
    t.timeout(120_000)
    await platform
  })
  return platform
}

async function start(
  options: PlatformOptions,
  parts: readonly [Promise<TestDatabase>, Promise<TestTemporal>],
  undo: (() => Promise<unknown>)[],
): Promise<TestPlatform> {
  const [database, temporal] = await Promise.all(parts)
  const folder = await mkdtemp(join(tmpdir(), 'berth-platform-'))
  await chmod(folder, 0o711)
  undo.push(() => rm(folder, { recursive: true, force: true }))
  const proxy = await startProxy(options.edge)
  undo.push(() => proxy.stop())
  const settings = {
    BERTH_DATA: folder,
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    QUEUE_PREFIX: temporal.queuePrefix,
    BERTH_MASTER_KEY: masterKey,
    EDGE_CONTROL_SOCKET: proxy.config.edge.controlSocket,
    HOST_FIREWALL: 'off',
    HEALTH_GATE_SECONDS: '8',
    DISK_MB_PER_256MB: '64',
    DATABASE_ENGINES: 'none',
    WARM_IMAGES: 'none', // what a test measures must not compete with pulls in the background
    DATABASE_PORTS: ownPorts(),
    DATABASE_DRILL_DAYS: '0', // whatever is there at a moment is what a test has made
    RATE_LIMIT_SCALE: '1000',
    LOG_LEVEL: 'warn',
    BLOB_UPKEEP: 'off', // its schedules would outlive the test's queues on the Temporal that all share
    ...(typeof options.settings === 'function' ? await options.settings(proxy) : options.settings),
  }
  const config = parseConfig({ ...process.env, ...settings }, '/')
  const store = await openObjectStore(config.objectStore)
  const platform = new TestPlatform({
    db: database.db,
    url: database.url,
    folder,
    proxy,
    settings,
    config,
    store,
    undo,
    log: options.log ?? log,
  })
  if (options.worker ?? true) await platform.startWorker()
  if (options.api ?? true) await platform.startApi(database)
  const hosts = Object.entries(options.hosts ?? { a: {} })
  await Promise.all(hosts.map(([name, own]) => platform.startHost(name, own)))
  return platform
}

/** A hundred ports of databases: platforms of several test files share a machine. */
function ownPorts(): string {
  const from = 20_000 + 100 * randomInt(100)
  return `${from}-${from + 99}`
}

interface PlatformBase {
  db: Db
  url: string
  folder: string
  proxy: TestProxy
  /** The environment of its processes. */
  settings: Record<string, string>
  config: Config
  store: ObjectStore
  undo: (() => Promise<unknown>)[]
  log: Logger
}

/** A platform as tests drive it: requests as an actor, programs as zips, hosts that come and go. */
export class TestPlatform {
  readonly base: PlatformBase
  readonly hosts = new Map<string, RunningHost>()
  /** What the worker in this process takes for its machine. */
  readonly machine = thisMachine()
  readonly #run = randomBytes(3).toString('hex')
  api!: TestApi

  constructor(base: PlatformBase) {
    this.base = base
  }

  get db(): Db {
    return this.base.db
  }

  async startApi(database: TestDatabase): Promise<TestApi> {
    const { config, store, undo, log } = this.base
    const client = openTemporal(config)
    undo.push(() => client.connection.close())
    const lanes = temporalLanes(client, { queuePrefix: config.queuePrefix, idleSeconds: 5 })
    const ask = hostCall(database.db, masterKey)
    const chatCalls = openChatCalls(config, database.db, log)
    undo.push(() => chatCalls.end(0))
    const services = ({ rates }: Services) => ({
      lanes: lanes as never,
      databaseLanes: temporalDatabaseLanes(client, { queuePrefix: config.queuePrefix, idleSeconds: 5 }) as never,
      resolvesName: resolvesNames(),
      downgrades: temporalDowngrades(client, config),
      domains: temporalDomains(client, config),
      domainRecords: domainRecords(resolverDns(config.domains.dnsServers), config),
      hosts: httpHostReader(database.db, ask) as never,
      live: new LiveFeeds(hostLive(ask), rates),
      chatCalls,
      store,
      log,
    })
    this.api = await openApiFor(database, { config, services }, undo)
    return this.api
  }

  /** The API as a process of its own, on ports of its own; `folder` is the checkout of another version. */
  async startApiProcess(
    own: Record<string, string> = {},
    folder?: string,
  ): Promise<{ api: Entry; url: string; blobUrl: string; s3Url: string }> {
    const names = ['API_PORT', 'BLOB_PORT', 'S3_PORT', 'FILES_PORT', 'PUBLIC_PORT']
    const [port, blobPort, s3Port, ...others] = await Promise.all(names.map(unusedPort))
    const ports = [port, blobPort, s3Port, ...others].map((free, n) => [names[n], String(free)])
    const api = startEntry('api', { ...this.base.settings, ...own, ...Object.fromEntries(ports) }, [], folder)
    await api.ready
    const [url, blobUrl, s3Url] = [port, blobPort, s3Port].map(own => `http://127.0.0.1:${own}`) as [
      string,
      string,
      string,
    ]
    return { api, url, blobUrl, s3Url }
  }

  async startWorker() {
    const { config, store, proxy, db, undo, log } = this.base
    const client = openTemporal(config)
    const lanes = temporalLanes(client, { queuePrefix: config.queuePrefix, idleSeconds: 5 })
    const workflowBundle = process.env.TEST_WORKFLOW_BUNDLE
    const worker = await startPlatformWorker({
      config,
      log,
      db,
      client,
      lanes,
      databaseLanes: temporalDatabaseLanes(client, { queuePrefix: config.queuePrefix, idleSeconds: 5 }),
      edge: proxy.edge,
      store,
      machine: this.machine,
      workflowBundle,
    })
    let stopped: Promise<void> | undefined
    const stop = () => {
      stopped ??= worker.stop().then(() => client.connection.close())
      return stopped
    }
    undo.push(stop)
    return { ...worker, stop }
  }

  /** The host's full name: names are of this run, for the engine is shared with others. */
  hostId(name: string): string {
    return `t${this.#run}-${name}`
  }

  /** The environment of a host process of its own. */
  hostSettings(name: string, own: Record<string, string> = {}): Record<string, string> {
    return { ...this.base.settings, HOST_MEMORY_MB: '8192', ...own, HOST_NAME: this.hostId(name) }
  }

  /** A host in this process. `changed` takes the place of parts of it, as a `bootId` that plays another boot of the machine. */
  async startHost(
    name: string,
    own: Record<string, string> = {},
    changed: Partial<HostParts> = {},
  ): Promise<RunningHost> {
    const config = parseConfig({ ...process.env, ...this.hostSettings(name, own) }, '/')
    const parts = { ...(await openHost(config, this.base.log)), ...changed }
    if (changed.bootId) this.machine.bootId = changed.bootId
    const running = await startHost(parts)
    let stopped: Promise<void> | undefined
    const stop = () => {
      stopped ??= (async () => {
        await running.stop()
        await parts.close()
      })()
      return stopped
    }
    this.clearLater(name)
    this.base.undo.push(stop)
    const host = { id: config.host.id, parts, stop }
    this.hosts.set(name, host)
    return host
  }

  #cleared = new Set<string>()

  /** Removes everything that a host leaves on this machine after the file, whichever process ran it. */
  clearLater(name: string): void {
    if (this.#cleared.has(name)) return
    this.#cleared.add(name)
    this.base.undo.push(() => clearHost(this.base.settings.BERTH_DATA!, this.hostId(name)))
  }

  remains(name = 'a') {
    return remainsOf(this.base.settings.BERTH_DATA!, this.hostId(name))
  }

  /** Segments in the object store, after the sweep has removed unreferenced ones. */
  async storedBodies(): Promise<string[]> {
    const { store, folder } = this.base
    // What the API has drawn ahead goes too, and what stays for downloads.
    this.api.services.segmentIds = new SegmentIds(this.db)
    await this.db('segments').where('zero_since', '>', this.db.fn.now()).update({ zero_since: this.db.fn.now() })
    await sweep({ db: this.db, store }, { drawnSeconds: 0, unreferencedSeconds: 0, downloadSeconds: 0 })
    const files = await readdir(join(folder, 'objects'), { recursive: true, withFileTypes: true })
    return files.filter(file => file.isFile() && file.name !== installationMark).map(file => file.name)
  }

  /** Uploads a program. The answer's operation still runs. */
  async upload(user: TestUser, program: Program, values: Record<string, string | null> = {}): Promise<Deployed> {
    const lines = Object.entries(configOf(program, values)).map(([name, value]) => `${name}=${value}`)
    const form = new FormData()
    const zip = zipOf({ 'berth.app': lines.join('\n'), ...program.files })
    form.append('file', new Blob([new Uint8Array(zip)]), 'app.zip')
    const answer = await this.api.as(user).post('/v2/apps', form)
    const { id, domain } = answer.body.response ?? {}
    return { ...answer, id, domain, operationId: answer.headers.get('x-operation-id') as string }
  }

  /** Uploads a program and waits for the end of its deployment. */
  async deploy(user: TestUser, program: Program, values?: Record<string, string | null>) {
    const deployed = await this.upload(user, program, values)
    if (deployed.status !== 200) throw new Error(`POST /v2/apps answered ${deployed.status}: ${deployed.text}`)
    return { ...deployed, operation: await this.ended(deployed.operationId) }
  }

  async ended(operationId: string, seconds = 90): Promise<operations.OperationRow> {
    return this.until(
      async () => {
        const row = await operations.findOperation(this.db, operationId)
        return row && !['accepting', 'queued', 'running'].includes(row.state) ? row : null
      },
      seconds,
      `operation ${operationId}`,
    )
  }

  /** Repeats a query until it returns something, or fails. */
  async until<T>(ask: () => Promise<T | null | undefined | false>, seconds: number, what: string): Promise<T> {
    for (const looks = lookingAgain(seconds); ; ) {
      const found = await ask()
      if (found) return found
      if (!(await looks.again())) throw new Error(`${what}: not within ${seconds} s`)
    }
  }

  row(appId: string): Promise<AppRow | undefined> {
    return loadApp(this.db, appId)
  }

  /** One request to an application through the proxy. */
  page(domain: string, call?: Call): Promise<Seen> {
    return ask(this.base.proxy.port, domain, call)
  }

  async serves(domain: string, text: string, seconds = 20): Promise<Seen> {
    return this.until(
      async () => {
        const seen = await this.page(domain).catch(() => null)
        return seen?.status === 200 && seen.body.includes(text) ? seen : null
      },
      seconds,
      `${domain} answers "${text}"`,
    )
  }
}
