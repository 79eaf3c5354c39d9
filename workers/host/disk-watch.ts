import type { Logger } from 'pino'
import { databaseVolume } from '../../activities/databases/names.ts'
import type { InstallCache } from '../../activities/installs/port.ts'
import type { PackageCacheProcess } from '../../activities/packages/process.ts'
import type { VolumeFault, Volumes } from '../../activities/volumes/port.ts'
import { listReleasedApps } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { listServedVolumes } from '../../db/databases/database-lookups.ts'
import { recordDiskPromise, recordProtection } from '../../db/hosts/hosts.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { loop } from '../../lib/async/loop.ts'
import { isOtherPromise } from '../../policy/hosts/placement.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface DiskWatchOptions {
  db: Db
  volumes: Pick<Volumes, 'faults'>
  hostId: string
  log: Logger
  everySeconds?: number
}

/** Number of applications and databases with the same fault that are named. */
const maxNamed = 3

/** The state of the disks of applications and databases, in words. */
export function disksState(count: number, faults: ReadonlyMap<string, VolumeFault>): string {
  if (faults.size === 0) return 'all present'
  const kinds: VolumeFault[] = ['lost', 'read-only', 'not mounted']
  const parts = kinds.flatMap(kind => {
    const ids = [...faults].filter(([, fault]) => fault === kind).map(([id]) => id)
    const more = ids.length > maxNamed ? ' and others' : ''
    return ids.length > 0 ? [`${ids.length} ${kind} (${ids.slice(0, maxNamed).join(', ')}${more})`] : []
  })
  return `BROKEN: of ${count} disks ${parts.join(', ')}`
}

/**
 * Reports disks that are lost or read-only to operators: the owner of a program that only answers requests might not notice for days.
 * Checks in every round and records changes, until the signal aborts.
 */
export async function watchDisks(
  { db, volumes, hostId, log, everySeconds = roundSeconds.disks }: DiskWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  let recorded = ''
  const look = async () => {
    const ofDatabases = (await listServedVolumes(db, hostId)).map(databaseVolume)
    const ids = [...(await listReleasedApps(db, hostId)), ...ofDatabases]
    const state = disksState(ids.length, await volumes.faults(ids))
    if (state === recorded) return
    await recordProtection(db, hostId, 'disks', state)
    if (state.startsWith('BROKEN')) log.error({ state }, 'disks: faults')
    recorded = state
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'disks: will try again')
  await loop(look, { signal, everyMs: everySeconds * 1000, onError })
}

/** Bytes that the caches of builds hold. The last figure stands while one does not answer; before its first start the cache of packages counts as empty. */
export function cachedBytes(
  installs: Pick<InstallCache, 'size'> | null,
  packages: Pick<PackageCacheProcess, 'counts'>,
): () => Promise<number> {
  let packageBytes = 0
  return async () => {
    const counts = await packages.counts().catch(ignoreError('the figure before stands'))
    packageBytes = counts?.bytes ?? packageBytes
    return packageBytes + (installs?.size().bytes ?? 0)
  }
}

export interface PromiseWatchOptions {
  db: Db
  hostId: string
  log: Logger
  /** What was recorded with the start of the host. */
  recordedMb: number
  promisedDiskMb(): Promise<number>
  everySeconds?: number
}

/** Records what the host promises of its disk whenever that has changed by a step, until the signal aborts. */
export async function watchDiskPromise(
  { db, hostId, log, recordedMb, promisedDiskMb, everySeconds = roundSeconds.diskPromise }: PromiseWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  let recorded = recordedMb
  const look = async () => {
    const now = await promisedDiskMb()
    if (!isOtherPromise(recorded, now)) return
    await recordDiskPromise(db, hostId, now)
    recorded = now
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'disks: capacity check failed; will retry')
  await loop(look, { signal, everyMs: everySeconds * 1000, onError })
}
