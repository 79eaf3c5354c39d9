import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { type DatabaseHostOptions, databaseHostActivities } from '../../../activities/database-host.ts'
import { databaseSnapshotActivities } from '../../../activities/database-snapshots.ts'
import { databaseDiskGuard } from '../../../activities/databases/disk-guard.ts'
import { contentsOf } from '../../../activities/databases/engines/contents.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import { recordingClosings } from '../../../activities/databases/point-in-time/closings.ts'
import { pointInTime } from '../../../activities/databases/point-in-time/point-in-time.ts'
import { walCopies } from '../../../activities/databases/point-in-time/wal-copies.ts'
import { templateArchives } from '../../../activities/databases/templates/archives.ts'
import { databaseTemplates } from '../../../activities/databases/templates/templates.ts'
import type { Boot } from '../../../activities/hosts/boot.ts'
import { strayBook } from '../../../activities/hosts/stray-book.ts'
import type { SnapshotSlots } from '../../../activities/snapshots/snapshot-slots.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import { diskLimits } from '../../../activities/volumes/disk-limits.ts'
import { readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { diskMbFor } from '../../../policy/apps/sizes.ts'
import { type DatabasePlace, databasePlace } from '../../../policy/databases/connection-url.ts'
import { withCrashPoints } from '../../crash-points.ts'
import { type HostLease, leased } from '../host-lease.ts'
import { type HostParts, hostFolder } from '../host-parts.ts'
import { admitDatabases } from './database-admissions.ts'
import type { DatabaseWatchOptions } from './database-watch.ts'

export interface DatabaseParts {
  parts: HostParts
  /** Those that only the holder of the lease may use. */
  engine: HostParts['engine']
  volumes: HostParts['volumes']
  lease: HostLease
  locks: AppLocks
  boot: Boot
  slots: SnapshotSlots
}

/** Interfaces of containers: nobody elsewhere has a route to them. */
const ofContainers = /^(b[bt].{13}$|docker|br-[0-9a-f]{12}$|veth)/

/** Where clients reach the databases of this host. */
export function placeOf({ host, databases }: Pick<HostParts['config'], 'host' | 'databases'>): DatabasePlace {
  const own = Object.entries(networkInterfaces()).flatMap(([name, all = []]) => (ofContainers.test(name) ? [] : all))
  const routed = own.filter(({ internal, family }) => !internal && family === 'IPv4')
  return databasePlace(
    databases,
    host.address,
    routed.map(({ address }) => address),
  )
}

/** What a host does for databases: the steps of their operations, and the watch of those that run. */
export function openDatabases({ parts, engine, volumes, lease, locks, boot, slots }: DatabaseParts) {
  const { config, db, log } = parts
  const hostId = config.host.id
  const { domain, addresses } = placeOf(config)
  const admit = admitDatabases({ engine, firewall: parts.firewall, hostId })
  const hosted = hostedEngines({
    db,
    keys: config.sealKeys,
    engine,
    volumes,
    engineOf,
    domain,
    address: addresses[0] ?? config.host.address,
    bind: config.databases.bind,
    archives: config.retention.pointInTimeDays > 0,
    redisSync: config.databases.redisSync,
  })
  const guard = databaseDiskGuard({ db, volumes, hosted })
  const templates = databaseTemplates({
    engine,
    engineOf,
    archives: templateArchives(parts.templateCache),
    drafts: join(hostFolder(config), 'template-drafts'),
    traits: parts.traits,
    sharedUid: parts.sharedUid,
    log,
  })
  const options: DatabaseHostOptions = {
    db,
    engine: withCrashPoints('database-engine', engine),
    volumes: withCrashPoints('database-volumes', volumes),
    hosted: withCrashPoints('databases', hosted),
    guard: withCrashPoints('database-disks', guard),
    traits: parts.traits,
    boot,
    bind: config.databases.bind,
    diskMb: ramMb => diskMbFor(ramMb, config.host.diskMbPer256Mb),
    disk: volume => diskLimits(volume, { ...config.host.disk, volumes, folder: hostFolder(config) }),
    admit,
    templates: withCrashPoints('database-templates', templates),
    locks,
    sharedUid: parts.sharedUid,
    confirm: lease.confirm,
  }
  const { held } = lease
  const store = withCrashPoints('store', parts.store)
  const copies = walCopies({ db: withCrashPoints('wal-copies', db), store: withCrashPoints('wal-store', store), held })
  const restorable = pointInTime({ ...options, store: withCrashPoints('base-backups', store), copies, held })
  const activities = recordingClosings(db, restorable, databaseHostActivities(options))
  const snapshots = databaseSnapshotActivities({
    ...options,
    store,
    pointInTime: restorable,
    snapshots: withCrashPoints('snapshots', parts.snapshots),
    contentsOf,
    slots,
  })
  const watch: DatabaseWatchOptions = {
    db: withCrashPoints('database-watch', db),
    engine: withCrashPoints('database-watch', engine),
    volumes: withCrashPoints('database-watch', volumes),
    strays: strayBook(join(hostFolder(config), 'stray-databases.json')),
    locks,
    hostId,
    boot,
    log,
    held: lease.held,
    admit,
    async memoryOf({ id }) {
      const database = await readFactsOfDatabase(db, id)
      if (!database) throw new Error('The database was deleted.')
      return hosted.memoryOf(database)
    },
    diskOf: guard.spaceOf,
    // Where the setting is 0 they are not stored.
    waits: config.retention.pointInTimeDays > 0 ? restorable.waits : undefined,
  }
  return {
    activities: withCrashPoints('host', leased(lease, activities)),
    snapshots: withCrashPoints('host', leased(lease, snapshots)),
    watch,
    /** Of `databaseBounds`. */
    async adopt(id: string): Promise<void> {
      const database = await readFactsOfDatabase(db, id)
      const { adopt } = database ? hosted.adapterOf(database) : {}
      if (database && adopt) await hosted.locally(database, adopt)
    },
    disks: { db, guard, engine, locks, hostId, sharedUid: parts.sharedUid, log, held: lease.held },
    templates,
    /** Null where the setting is 0. */
    copies:
      config.retention.pointInTimeDays > 0
        ? { db, pointInTime: restorable, hostId, sharedUid: parts.sharedUid, log }
        : null,
  }
}
