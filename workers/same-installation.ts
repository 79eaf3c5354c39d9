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
  /** The data folder, and what else of it carries the id. */
  folders: string[]
  clock?: Clock
}

interface Clock {
  /** Milliseconds since some moment. */
  now(): number
  /** Resolves after so many milliseconds, or when the signal aborts. */
  pause(ms: number, signal?: AbortSignal): Promise<unknown>
}

const realClock: Clock = {
  now: () => performance.now(),
  pause,
}

const againMs = 1000
/** Who starts while something is away looks every second, and tells of it less and less often. */
const tells = { firstSeconds: 2, maxSeconds: 60 }

/**
 * Compares what this process stands on before it does anything: database, folders and object store belong to one installation
 * (docs/decisions/one-installation.md). Waits while one of them is away. A process that meets another installation's ends with
 * code 1 and says in its log what to do.
 */
export async function demandSameInstallation(parts: InstallationParts): Promise<void> {
  const comparison = new Comparison(parts)
  if (!(await comparison.confirmed())) await comparison.confirmedLater()
}

/**
 * The same for a process that also serves without them: it goes on at once, and ends when one of them is the wrong one, or cannot be
 * compared. Nothing is compared any more once `ending` aborts.
 */
export async function demandSameInstallationSoon(parts: InstallationParts, ending: AbortSignal): Promise<void> {
  const comparison = new Comparison(parts)
  if (await comparison.confirmed()) return
  void comparison.confirmedLater(ending).catch(error => {
    if (ending.aborted) return
    parts.log.fatal({ err: error }, 'it could not be found out which installation this is')
    process.exit(1)
  })
}

class Comparison {
  readonly #parts: InstallationParts
  readonly #clock: Clock
  readonly #told: Backoff
  /** What has not answered since it was first asked in vain. */
  readonly #away = new Set<string>()

  constructor(parts: InstallationParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? realClock
    this.#told = new Backoff({ ...tells, now: this.#clock.now })
  }

  async confirmedLater(ending?: AbortSignal): Promise<void> {
    do await this.#clock.pause(againMs, ending)
    while (!ending?.aborted && !(await this.confirmed()))
  }

  /** False while the database, or an object store on another machine, cannot be asked. */
  async confirmed(): Promise<boolean> {
    const { db, config, log, store, folders } = this.#parts
    let asked = 'the database'
    try {
      for (const folder of folders) await confirmFolder(db, folder, databaseName(config.databaseUrl))
      this.#tellBack(asked)
      asked = 'the object store'
      await confirmStore(db, store)
      this.#tellBack(asked)
      asked = 'the database'
      await advanceEpoch(db)
      await pinDatabase(db, why => {
        log.fatal(`${why} This process ends, and compares again when it is started.`)
        process.exit(1)
      })
      return true
    } catch (error) {
      if (error instanceof WrongInstallation) {
        log.fatal(error.message)
        process.exit(1)
      }
      const mayComeBack = isUnavailable(error) || (asked === 'the object store' && config.objectStore.kind === 's3')
      if (!mayComeBack) throw error
      this.#away.add(asked)
      if (!this.#told.waits(asked)) {
        this.#told.seen(asked)
        log.warn({ err: error }, `${asked} does not say yet which installation this is`)
      }
      return false
    }
  }

  #tellBack(what: string): void {
    if (!this.#away.delete(what)) return
    this.#told.forget(what)
    this.#parts.log.info(`${what} says by now which installation this is`)
  }
}
