import type { Logger } from 'pino'
import { type ContainerEvent, type ContainerHost, labels } from '../../../activities/containers/port.ts'
import { databaseRole } from '../../../activities/databases/names.ts'
import type { Boot } from '../../../activities/hosts/boot.ts'
import type { StrayBook } from '../../../activities/hosts/stray-book.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import type { Db } from '../../../db/database.ts'
import { databaseChangesSince } from '../../../db/databases/database-changes.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { returnDelay } from '../../../policy/databases/restarts.ts'
import { roundSeconds } from '../../../policy/rounds.ts'
import { watchMetrics } from '../host-metrics.ts'
import { watchRounds } from '../host-watch.ts'
import { Rounds } from '../watch/rounds.ts'
import { compareDatabases, compareSomeDatabases, type DatabaseComparisonOptions } from './database-comparison.ts'
import { DatabaseMetrics, type DatabaseMetricsOptions } from './database-metrics.ts'

export interface DatabaseWatchOptions extends Pick<DatabaseMetricsOptions, 'memoryOf' | 'diskOf'> {
  db: Db
  engine: ContainerHost
  volumes: Volumes
  /** Where the host records which databases it has quarantined; not the book of applications. */
  strays: StrayBook
  /** Locks by the id of a database, shared with its activities. */
  locks: AppLocks
  hostId: string
  boot: Boot
  log: Logger
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
  /** Bounds what the engines that run print and send (database-bounds.ts). */
  onContainers?: DatabaseComparisonOptions['onContainers']
  /** Whether a volume that no longer serves has changes that are not stored yet. */
  waits?: DatabaseComparisonOptions['waits']
  /** Lets the owners' applications reach the databases that run (database-admissions.ts). */
  admit(): Promise<void>
  /** Milliseconds since 1970. */
  now?: () => number
  /** Pause between rounds. */
  everySeconds?: number
  /** How often everything is compared, changed or not. */
  everythingSeconds?: number
}

/**
 * Rounds of the watch of databases. After each round that looked at any, the firewall admits what runs; a failure of that holds up
 * nothing, and is tried again.
 */
export class DatabaseRounds extends Rounds {
  readonly #options: DatabaseWatchOptions
  readonly #due: Map<string, number>
  #isAdmitted = false

  constructor(options: DatabaseWatchOptions) {
    const { db, hostId, boot, everythingSeconds } = options
    const due = new Map<string, number>()
    const returns = new Backoff({ ...returnDelay, now: options.now })
    const own = { ...options, returns, due, failing: new Set<string>() }
    super(
      {
        changes: mark => databaseChangesSince(db, mark, hostId),
        some: ids => {
          if (ids.size > 0) this.#isAdmitted = false
          return compareSomeDatabases(own, ids)
        },
        everything: () => {
          this.#isAdmitted = false
          return compareDatabases(own)
        },
      },
      { boot, everythingSeconds },
    )
    this.#options = options
    this.#due = due
  }

  override async round(): Promise<boolean> {
    try {
      return await super.round()
    } finally {
      if (!this.#isAdmitted) await this.#admit()
    }
  }

  /**
   * Pause before the next round, in milliseconds: until the next restart after a crash is due, if that is sooner. After a round that
   * failed, what is overdue waits as everything else does.
   */
  pauseMs(failed: boolean): number {
    const { now = Date.now, everySeconds = roundSeconds.hostWatch } = this.#options
    if (failed) return everySeconds * 1000
    return Math.max(0, Math.min(everySeconds * 1000, ...[...this.#due.values()].map(at => at - now())))
  }

  async #admit(): Promise<void> {
    try {
      await this.#options.admit()
      this.#isAdmitted = true
    } catch (error) {
      this.#options.log.warn({ err: error }, 'firewall: databases are not admitted yet')
    }
  }
}

/** Keeps databases of a host and their rows consistent, and samples them, until the signal aborts: ends, reboots, restarts, strays. */
export async function watchDatabases(options: DatabaseWatchOptions, signal: AbortSignal): Promise<void> {
  const { engine, hostId, log } = options
  const rounds = new DatabaseRounds(options)
  const onEvent = ({ labels: values }: ContainerEvent): boolean => {
    const id = values[labels.database]
    if (id === undefined) return false
    rounds.see(id)
    return true
  }
  const filter = { [labels.host]: hostId, [labels.role]: databaseRole }
  const everyMs = ({ failed }: { failed: boolean }) => rounds.pauseMs(failed)
  await Promise.all([
    watchRounds({ engine, log, rounds, filter, onEvent, everyMs }, signal),
    watchMetrics(options, signal, new DatabaseMetrics(options)),
  ])
}
