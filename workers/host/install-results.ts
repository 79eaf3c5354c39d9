import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { openInstallCache } from '../../activities/installs/cache.ts'
import type { InstallCache } from '../../activities/installs/port.ts'
import type { Snapshots } from '../../activities/snapshots/port.ts'
import { existingUsers } from '../../db/accounts/accounts.ts'
import { listAppsOfHost } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { type InstallCacheSize, recordInstallCache } from '../../db/hosts/hosts.ts'
import { loop } from '../../lib/async/loop.ts'
import { MiB } from '../../lib/bytes.ts'
import { roundSeconds } from '../../policy/rounds.ts'

export interface InstallResultsOptions {
  /** The host's own folder. */
  folder: string
  /** 0 = no cache, and nothing of an earlier one. */
  maxMb: number
  snapshots: Snapshots
  log: Logger
}

/**
 * Opens the cache of install results of this host, which has to hold its lease. Without one, or if it cannot be opened, applications still
 * use their own earlier releases.
 */
export async function openInstallResults(options: InstallResultsOptions): Promise<InstallCache | null> {
  const { folder, maxMb, snapshots, log } = options
  const root = join(folder, 'installs')
  if (maxMb === 0) {
    const words = 'installs: the results of earlier could not be removed'
    await rm(root, { recursive: true, force: true }).catch(error => log.warn({ err: error }, words))
    return null
  }
  const warn = (facts: object, message: string) => log.warn(facts, message)
  return openInstallCache({ root, maxBytes: maxMb * MiB, snapshots, warn }).catch(error => {
    log.error({ err: error }, 'installs: the cache cannot be opened')
    return null
  })
}

export interface InstallWatchOptions {
  db: Db
  installs: InstallCache | null
  hostId: string
  log: Logger
  everySeconds?: number
}

/** Removes results that no one uses, and records the size of the cache, in every round until the signal aborts; then closes the cache. */
export async function watchInstallResults(
  { db, installs, hostId, log, everySeconds = roundSeconds.installResults }: InstallWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  let recorded = ''
  const look = async () => {
    await installs?.sweep(
      accounts => existingUsers(db, accounts),
      async ids => new Set((await listAppsOfHost(db, hostId, ids)).map(({ id }) => id)),
    )
    const size = installs ? sizeOf(installs) : null
    if (JSON.stringify(size) === recorded) return
    await recordInstallCache(db, hostId, size)
    recorded = JSON.stringify(size)
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'installs: will try again')
  await loop(look, { signal, everyMs: everySeconds * 1000, onError })
  await installs?.close()
}

function sizeOf(installs: InstallCache): InstallCacheSize {
  const { entries, bytes, maxBytes } = installs.size()
  return { results: entries, mb: Math.ceil(bytes / MiB), maxMb: Math.round(maxBytes / MiB) }
}
