import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { confirmFolder, confirmStore } from '../activities/installation.ts'
import type { ObjectStore } from '../activities/object-store.ts'
import { type Db, isUnavailable } from '../db/database.ts'
import type { Config } from '../policy/config.ts'
import { databaseName, WrongInstallation } from '../policy/installation.ts'

export interface InstallationParts {
  db: Db
  config: Config
  log: Logger
  store: ObjectStore
  /** The data folder, and what else of it carries the id. */
  folders: string[]
}

const againMs = 1000

/**
 * Compares what this process stands on before it does anything: database, folders and object store belong to one installation
 * (docs/decisions/one-installation.md). Waits while one of them is away. A process that meets another installation's ends with
 * code 1 and says in its log what to do.
 */
export async function demandSameInstallation(parts: InstallationParts): Promise<void> {
  while (!(await confirmed(parts))) await sleep(againMs)
}

/** The same for a process that also serves without them: it goes on at once, and ends when one of them is the wrong one. */
export async function demandSameInstallationSoon(parts: InstallationParts): Promise<void> {
  if (await confirmed(parts)) return
  void sleep(againMs).then(() => demandSameInstallation(parts))
}

/** False while the database, or an object store on another machine, cannot be asked. */
async function confirmed({ db, config, log, store, folders }: InstallationParts): Promise<boolean> {
  let asked = 'the database'
  try {
    for (const folder of folders) await confirmFolder(db, folder, databaseName(config.databaseUrl))
    asked = 'the object store'
    await confirmStore(db, store)
    return true
  } catch (error) {
    if (error instanceof WrongInstallation) {
      log.fatal(error.message)
      process.exit(1)
    }
    const mayComeBack = isUnavailable(error) || (asked === 'the object store' && config.objectStore.kind === 's3')
    if (!mayComeBack) throw error
    log.warn({ err: error }, `${asked} does not say yet which installation this is`)
    return false
  }
}
