import type { Logger } from 'pino'
import { confirmFolder, confirmStore } from '../activities/installation/installation.ts'
import type { ObjectStore } from '../activities/objects/port.ts'
import { type Db, isUnavailable, pinDatabase } from '../db/database.ts'
import { advanceEpoch } from '../db/installation.ts'
import { Backoff } from '../lib/async/backoff.ts'
import { pause } from '../lib/async/loop.ts'
import type { Config } from '../policy/config.ts'
import { databaseName, WrongInstallation } from '../policy/installation/installation.ts'

export interface InstallationParts {
  db: Db
  config: Config
  log: Logger
  store: ObjectStore
  /** The data folder, and its other folders that have the id. */
  folders: string[]
  clock?: Clock
}

interface Clock {
  /** Milliseconds since an arbitrary moment. */
  now(): number
  /** Resolves after `ms` milliseconds, or when the signal aborts. */
  pause(ms: number, signal?: AbortSignal): Promise<unknown>
}

const realClock: Clock = {
  now: () => performance.now(),
  pause,
}

const retryMs = 1000
/** A process that starts while something is down checks every second, and logs that less and less often. */
const reports = { firstSeconds: 2, maxSeconds: 60 }

/**
 * Checks, before the process does anything, that its database, folders and object store belong to one installation
 * (docs/decisions/one-installation.md). Waits while one of them is down. If one belongs to another installation, the process exits with
 * code 1 and logs what to do.
 */
export async function demandSameInstallation(parts: InstallationParts): Promise<void> {
  const comparison = new Comparison(parts)
  if (!(await comparison.confirmed())) await comparison.confirmedLater()
}

/**
 * The same for a process that can also serve without them: it continues immediately, and exits when one of them is the wrong one, or
 * cannot be compared. The comparison ends when `ending` aborts.
 */
export async function demandSameInstallationSoon(parts: InstallationParts, ending: AbortSignal): Promise<void> {
  const comparison = new Comparison(parts)
  if (await comparison.confirmed()) return
  void comparison.confirmedLater(ending).catch(error => {
    if (ending.aborted) return
    parts.log.fatal({ err: error }, 'cannot determine which installation this is')
    process.exit(1)
  })
}

class Comparison {
  readonly #parts: InstallationParts
  readonly #clock: Clock
  readonly #reports: Backoff
  /** What has not answered since its first failure. */
  readonly #away = new Set<string>()

  constructor(parts: InstallationParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? realClock
    this.#reports = new Backoff({ ...reports, now: this.#clock.now })
  }

  async confirmedLater(ending?: AbortSignal): Promise<void> {
    do await this.#clock.pause(retryMs, ending)
    while (!ending?.aborted && !(await this.confirmed()))
  }

  /** False while the database, or an object store on another machine, cannot be reached. */
  async confirmed(): Promise<boolean> {
    const { db, config, log, store, folders } = this.#parts
    let part = 'the database'
    try {
      for (const folder of folders) await confirmFolder(db, folder, databaseName(config.databaseUrl))
      this.#reportReturn(part)
      part = 'the object store'
      await confirmStore(db, store)
      this.#reportReturn(part)
      part = 'the database'
      await advanceEpoch(db)
      await pinDatabase(db, why => {
        log.fatal(`${why} This process exits, and checks again when it is restarted.`)
        process.exit(1)
      })
      return true
    } catch (error) {
      if (error instanceof WrongInstallation) {
        log.fatal(error.message)
        process.exit(1)
      }
      const mayComeBack = isUnavailable(error) || (part === 'the object store' && config.objectStore.kind === 's3')
      if (!mayComeBack) throw error
      this.#away.add(part)
      if (!this.#reports.waits(part)) {
        this.#reports.seen(part)
        log.warn({ err: error }, `${part} is not reachable; waiting to check which installation it belongs to`)
      }
      return false
    }
  }

  #reportReturn(part: string): void {
    if (!this.#away.delete(part)) return
    this.#reports.forget(part)
    this.#parts.log.info(`${part} is reachable again`)
  }
}
