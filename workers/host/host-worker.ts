import { join } from 'node:path'
import type { Logger } from 'pino'
import { appHostActivities } from '../../activities/app-host.ts'
import { appSnapshotActivities } from '../../activities/app-snapshots.ts'
import { limitConnections } from '../../activities/containers/network-rules.ts'
import type { ListedContainer } from '../../activities/containers/port.ts'
import { routeGate } from '../../activities/hosts/route-gate.ts'
import { removeStopped, stoppedList } from '../../activities/hosts/stopped-list.ts'
import { strayBook } from '../../activities/hosts/stray-book.ts'
import { snapshotSlots } from '../../activities/snapshots/snapshot-slots.ts'
import { appLocks } from '../../activities/steps/app-locks.ts'
import { buildImages } from '../../activities/steps/build-images.ts'
import { diskLimits } from '../../activities/volumes/disk-limits.ts'
import * as hosts from '../../db/hosts/hosts.ts'
import { Backoff } from '../../lib/async/backoff.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { loop } from '../../lib/async/loop.ts'
import { bringBackDelay } from '../../policy/hosts/reconciliation.ts'
import { hostReadKey } from '../../policy/keys.ts'
import { withCrashPoints } from '../crash-points.ts'
import { BandwidthKeeper, BandwidthStates } from './bandwidth-keeper.ts'
import { databaseBounds } from './databases/database-bounds.ts'
import { watchDatabaseCopies } from './databases/database-copies.ts'
import { watchDatabaseDisks } from './databases/database-disks.ts'
import { keepDatabaseImages } from './databases/database-images.ts'
import { openDatabases, placeOf } from './databases/database-parts.ts'
import { watchDatabases } from './databases/database-watch.ts'
import { cachedBytes, watchDiskPromise, watchDisks } from './disk-watch.ts'
import { watchFirewall } from './firewall-watch.ts'
import { HealthChecks, watchHealth } from './health-checks.ts'
import { hostBoot } from './host-boot.ts'
import { leased, takeHostLease } from './host-lease.ts'
import { watchMetrics } from './host-metrics.ts'
import { type HostParts, hostFolder } from './host-parts.ts'
import { serveHostQueues } from './host-queues.ts'
import { HostRounds } from './host-rounds.ts'
import { watchHost } from './host-watch.ts'
import { watchDatabaseImages } from './images/database-images.ts'
import { watchWarmImages } from './images/warm-images.ts'
import { openInstallResults, watchInstallResults } from './install-results.ts'
import { OutputReaders } from './output-readers.ts'
import { watchPackages } from './package-cache.ts'
import { serveHost } from './server/host-server.ts'

const seenEveryMs = 1000

/** Engine methods that only the holder of the lease may call. `unpause` is not among them: a paused program may always continue. */
const engineVerbs = [
  'ensureNetwork',
  'removeNetwork',
  'removeShare',
  'create',
  'start',
  'stop',
  'pause',
  'remove',
  'runToEnd',
] as const

/** Registers the host, serves its reads, runs its activities and keeps its containers and rows consistent. */
export async function startHost(parts: HostParts) {
  const { config, log, db, archives, store, protections, builds } = parts
  const hostId = config.host.id
  const ending = new AbortController()
  const lease = await takeHostLease({
    databaseUrl: config.databaseUrl,
    hostId,
    folder: hostFolder(config),
    bootId: parts.bootId,
    log,
  })
  const engine = leased(lease, parts.engine, engineVerbs)
  const volumes = leased(lease, parts.volumes, ['ensure', 'setAside', 'bringBack', 'remove', 'remountAll'])

  // A volume that cannot be mounted affects its own application only.
  await volumes
    .remountAll()
    .catch(error => log.error({ error: String(error), causes: error.errors?.map(String) }, 'volumes'))
  await removeStopped(engine, hostId, stoppedList(hostFolder(config))).catch(err =>
    log.error({ err }, 'could not remove containers that were stopped with the host'),
  )
  // Only now: until it has the lease, another process acts as this host and writes there.
  const installs = await openInstallResults({
    folder: hostFolder(config),
    maxMb: parts.installCacheMb,
    snapshots: parts.snapshots,
    log,
  })
  const key = hostReadKey(config.masterKey, hostId)
  const { address, streamPort: port } = config.host
  const locks = appLocks(lease.held)
  const reads = await serveHost({ db, engine, volumes, hostId, locks, key, address, port, log })
  const cached = cachedBytes(installs, parts.packages)
  const promisedDiskMb = async () => parts.promisedDiskMb(await cached())
  const diskMb = await promisedDiskMb().catch(error => {
    log.error({ err: error }, 'disks: nothing new is placed here until the host can look at what it has')
    return 0
  })
  await hosts.registerHost(db, {
    id: hostId,
    address,
    readUrl: reads.url,
    protections,
    builds: builds.facts,
    databases: placeOf(config),
    memoryMb: parts.memoryMb,
    diskMb,
  })

  const boot = await hostBoot({
    db: withCrashPoints('boot', db),
    engine,
    hostId,
    machineBootId: parts.bootId,
    held: lease.held,
    log,
  })

  const acting = AbortSignal.any([ending.signal, lease.lost])
  const strays = strayBook(join(hostFolder(config), 'strays.json'))
  const readers = new OutputReaders({ engine, log, ended: appId => rounds.see(appId) }, acting)
  const { bandwidth, firewall } = parts
  const { mbitPer256Mb } = config.host
  const bounds = { engine, bandwidth, mbitPer256Mb, log, states: new BandwidthStates(db, hostId) }
  const bandwidths = new BandwidthKeeper(bounds)
  const health = new HealthChecks({ db, hostId, appsDomain: config.appsDomain, log, held: lease.held })
  const watched = {
    db: withCrashPoints('watch', db),
    engine: withCrashPoints('watch', engine),
    volumes: withCrashPoints('watch', volumes),
    strays: withCrashPoints('watch', strays),
    locks,
    hostId,
    boot,
    log,
    held: lease.held,
    returns: new Backoff(bringBackDelay),
    onContainers(present: readonly ListedContainer[], ids?: ReadonlySet<string>) {
      readers.see(present, ids)
      void bandwidths.see(present, ids)
    },
    onApps: health.see,
  }
  const rounds = new HostRounds(watched)
  const slots = snapshotSlots(db)
  const databases = openDatabases({ parts, engine, volumes, lease, locks, boot, slots })
  const { adopt } = databases
  const boundDatabases = databaseBounds({ ...bounds, adopt, limitConnections: firewall && limitConnections }, acting)
  const loops = [
    stayVisible(parts, acting, log),
    watchHost(watched, acting, rounds),
    watchDatabases({ ...databases.watch, onContainers: boundDatabases }, acting),
    watchDatabaseDisks(databases.disks, acting),
    ...(databases.copies ? [watchDatabaseCopies(databases.copies, acting)] : []),
    watchDatabaseImages(
      { db, engine: parts.engine, hostId, databases: config.databases, log, templates: databases.templates },
      acting,
    ),
    keepDatabaseImages({ db, engine: parts.engine, hostId, databases: config.databases, log }, acting),
    watchWarmImages(
      { db, engine: parts.engine, hostId, languages: config.host.warmLanguages, log, freeBytes: parts.freeBytes },
      acting,
    ),
    watchMetrics({ db, engine, hostId, log }, acting),
    watchHealth(health, log, acting),
    watchFirewall({ db, firewall: parts.firewall, hostId, log }, acting),
    watchDisks({ db, volumes, hostId, log }, acting),
    watchDiskPromise({ db, hostId, log, recordedMb: diskMb, promisedDiskMb }, acting),
    watchInstallResults({ db, installs, hostId, log }, acting),
    watchPackages(
      { db, packages: parts.packages, maxMb: parts.packageCacheMb, hostId, folder: hostFolder(config), log },
      acting,
    ),
  ]
  const options = {
    db,
    engine: withCrashPoints('engine', engine),
    volumes: withCrashPoints('volumes', volumes),
    archives: withCrashPoints('archives', archives),
    store: withCrashPoints('store', store),
    traits: parts.traits,
    authorities: builds.authorities,
    proxies: builds.proxies,
    sharedUid: parts.sharedUid,
    boot,
    confirm: lease.confirm,
    packages: parts.packages,
    ...(installs && { installs: withCrashPoints('installs', installs) }),
    warn: (facts: object, message: string) => log.warn(facts, message),
    routed: routeGate(db, hostId, boot),
    placement: withCrashPoints('placement', parts.placement),
    snapshots: withCrashPoints('snapshots', parts.snapshots),
    locks,
    git: withCrashPoints('git', parts.git),
    gitLimits: parts.gitLimits,
    credentials: parts.credentials,
    variables: parts.variables,
    healthGateSeconds: config.host.healthGateSeconds,
    disk: (appId: string) => diskLimits(appId, { ...config.host.disk, volumes, folder: hostFolder(config) }),
    appsDomain: config.appsDomain,
    diskMbPer256Mb: config.host.diskMbPer256Mb,
  }
  const activities = withCrashPoints('host', leased(lease, appHostActivities(options)))
  const snapshots = withCrashPoints('host', leased(lease, appSnapshotActivities({ ...options, slots })))
  const queues = await serveHostQueues({
    config,
    log,
    hostId,
    activities,
    images: leased(lease, buildImages(options)),
    snapshots,
    databases: databases.activities,
    databaseSnapshots: databases.snapshots,
  })
  return {
    ended: Promise.race([queues.ended, lease.ended]),
    async stop() {
      ending.abort()
      if (!lease.lost.aborted)
        await hosts.recordHostLeft(db, hostId).catch(ignoreError('the host counts as unreachable soon'))
      await queues.stop()
      await Promise.all(loops)
      await new Promise(resolve => {
        reads.server.close(resolve)
        reads.server.closeAllConnections()
      })
      await lease.release()
    },
  }
}

/**
 * Records a heartbeat every second while the engine answers: a host without its engine can do nothing and knows nothing about its
 * containers, so it counts as silent.
 */
async function stayVisible({ db, config, engine }: HostParts, signal: AbortSignal, log: Logger): Promise<void> {
  const round = () => engine.ping().then(() => hosts.recordHostSeen(db, config.host.id))
  const onError = (error: unknown) =>
    log.warn({ err: error }, 'no heartbeat: the engine or the database does not answer')
  await loop(round, { signal, everyMs: seenEveryMs, onError })
}
