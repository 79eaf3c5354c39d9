import { join } from 'node:path'
import { type DatabaseHostOptions, databaseHostActivities } from '../../../activities/database-host.ts'
import { databaseSnapshotActivities } from '../../../activities/database-snapshots.ts'
import { contentsOf } from '../../../activities/databases/engines/contents.ts'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { hostedEngines } from '../../../activities/databases/hosted-engine.ts'
import type { Boot } from '../../../activities/hosts/boot.ts'
import { strayBook } from '../../../activities/hosts/stray-book.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import { diskLimits } from '../../../activities/volumes/disk-limits.ts'
import { diskMbFor } from '../../../policy/apps/sizes.ts'
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
}

/** What a host does for databases: the steps of their operations, and the watch of those that run. */
export function openDatabases({ parts, engine, volumes, lease, locks, boot }: DatabaseParts) {
  const { config, db, log } = parts
  const { id: hostId, address } = config.host
  const admit = admitDatabases({ engine, firewall: parts.firewall, hostId })
  const hosted = hostedEngines({
    db,
    keys: config.sealKeys,
    engine,
    volumes,
    engineOf,
    domain: config.databases.domain,
    address,
    bind: config.databases.bind,
  })
  const options: DatabaseHostOptions = {
    db,
    engine: withCrashPoints('database-engine', engine),
    volumes: withCrashPoints('database-volumes', volumes),
    hosted: withCrashPoints('databases', hosted),
    traits: parts.traits,
    boot,
    bind: config.databases.bind,
    diskMb: ramMb => diskMbFor(ramMb, config.host.diskMbPer256Mb),
    disk: volume => diskLimits(volume, { ...config.host.disk, volumes, folder: hostFolder(config) }),
    admit,
    locks,
    sharedUid: parts.sharedUid,
    confirm: lease.confirm,
  }
  const activities = databaseHostActivities(options)
  const snapshots = databaseSnapshotActivities({
    ...options,
    store: withCrashPoints('store', parts.store),
    snapshots: withCrashPoints('snapshots', parts.snapshots),
    contentsOf,
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
  }
  return {
    activities: withCrashPoints('host', leased(lease, activities)),
    snapshots: withCrashPoints('host', leased(lease, snapshots)),
    watch,
  }
}
