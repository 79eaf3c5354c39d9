import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { syncFolder } from '../../lib/folders/sync-folder.ts'
import { engineLimits } from '../../policy/network/analytics-terms.ts'
import { dayOf, scratchOf } from './expired-days.ts'

const dayForm = /^\d{4}-\d{2}-\d{2}$/
const fileForm = /^(\d{4}-\d{2}-\d{2})\.duckdb$/
const brokenForm = /^(\d{4}-\d{2}-\d{2})\.duckdb(\.wal)?\.broken$/

/**
 * Rewrites that make statements slower here. The engine expects a few rows of a slice, and would put all its lines into the hash table of a join instead of
 * the few agents and addresses; and it turns `in` with a list of names into a join. So the small side of a join is written on the right.
 */
const unwantedOptimizers = 'build_side_probe_side,in_clause'

/** The format of files, whatever a later engine has by default: not every format has the dictionaries that are requested below. */
const storageVersion = 'v1.0.0'

type OnBroken = (day: string, error: unknown) => void

/** Catalog of the engine that is always there, and has no requests: a union over days is never empty. */
const emptyCatalog = 'memory'

/** A text with few values in a day. The engine would choose the same, but only after it has tried everything else: a quarter of a checkpoint. */
const fewTexts = 'varchar using compression dictionary'

/**
 * `taken` are the requests of each application that were stored, `rest` those past its share, by quarter of an hour and status. `rollups` are
 * the runs of rows that have been summed, `rolled` the applications and breakdowns that have sums in each. The widest numbers: no line may
 * keep a run from being summed.
 */
const tables = (catalog: string) => `
  create table if not exists ${catalog}.requests (
    app ${fewTexts}, seen bigint, host ${fewTexts}, method ${fewTexts}, path varchar, query varchar, status usmallint, bytes ubigint,
    client varchar, country ${fewTexts}, city ${fewTexts}, provider ${fewTexts}, agent integer, referer varchar, referer_host ${fewTexts},
    protocol ${fewTexts}, content_type ${fewTexts}, visit boolean, cache ${fewTexts}, edge_ms uinteger, origin_ms uinteger, colo ${fewTexts},
    mitigated boolean);
  create table if not exists ${catalog}.agents (
    id integer, agent varchar, device varchar, os varchar, browser varchar, bot varchar);
  create table if not exists ${catalog}.shares (app varchar primary key, stored ubigint);
  create table if not exists ${catalog}.taken (app varchar primary key, account varchar, requests ubigint);
  create table if not exists ${catalog}.rest (
    app varchar, bucket bigint, status usmallint, visits bigint, requests bigint, bytes hugeint, primary key (app, bucket, status));
  create table if not exists ${catalog}.progress (file varchar, head varchar, "offset" bigint);
  create table if not exists ${catalog}.rollups (first bigint, after bigint);
  create table if not exists ${catalog}.rolled (app varchar, breakdown varchar, first bigint, after bigint);
  create table if not exists ${catalog}.sums (
    first bigint, app varchar, breakdown varchar, bucket bigint, type varchar, visits bigint, requests bigint, bytes hugeint);`

/** Text as a literal of SQL; only for our paths, as values of questions are bound. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** Runs `work` as one transaction of the connection: when it rejects, nothing of it is stored. */
export async function inTransaction<T>(connection: DuckDBConnection, work: () => Promise<T>): Promise<T> {
  await connection.run('begin')
  try {
    const result = await work()
    await connection.run('commit')
    return result
  } catch (error) {
    await connection.run('rollback').catch(() => {
      // The engine has rolled back itself, or is beyond repair: the first error has the reason.
    })
    throw error
  }
}

/** The files of the engine, one per day of UTC, attached to one engine without access to any other file. */
export class DuckDbDays {
  readonly #folder: string
  readonly #instance: DuckDBInstance
  readonly #attached: Set<string>
  readonly #connection: DuckDBConnection
  readonly #onBroken: OnBroken

  private constructor(folder: string, instance: DuckDBInstance, connection: DuckDBConnection, onBroken: OnBroken) {
    this.#folder = folder
    this.#instance = instance
    this.#connection = connection
    this.#onBroken = onBroken
    this.#attached = new Set()
  }

  /**
   * Opens the engine on a folder that belongs to it alone. A file that is no database any more is set aside: the log has what was in it. Throws
   * when a file cannot be opened for another reason, such as a lock or a lack of memory: it may be whole.
   */
  static async open(folder: string, onBroken: OnBroken): Promise<DuckDbDays> {
    const scratch = scratchOf(folder)
    await rm(scratch, { recursive: true, force: true })
    await mkdir(scratch, { recursive: true, mode: 0o700 })
    const instance = await DuckDBInstance.create(':memory:', {
      threads: String(engineLimits.threads),
      memory_limit: `${engineLimits.memoryMb}MB`,
      temp_directory: scratch,
      max_temp_directory_size: `${engineLimits.scratchMb}MB`,
      preserve_insertion_order: 'false',
      autoinstall_known_extensions: 'false',
      disabled_optimizers: unwantedOptimizers,
    })
    const connection = await instance.connect()
    await connection.run(`set allowed_directories = [${literal(`${folder}/`)}]`)
    await connection.run('set enable_external_access = false')
    await connection.run('set lock_configuration = true')
    await connection.run(tables(emptyCatalog))
    const days = new DuckDbDays(folder, instance, connection, onBroken)
    for (const name of (await readdir(folder)).sort()) {
      const [, day] = fileForm.exec(name) ?? []
      if (!day) continue
      await days
        .#attachFile(day)
        .catch(error => days.#setAside(day, error))
        .catch(error => {
          days.close()
          throw error
        })
    }
    return days
  }

  get scratch(): string {
    return scratchOf(this.#folder)
  }

  /** Oldest first. */
  list(): string[] {
    return [...this.#attached].sort()
  }

  /** Catalogs that may have requests of a window, quoted, and the empty one. */
  catalogsOf({ from, to }: { from: number; to: number }): string[] {
    const [first, last] = [dayOf(from), dayOf(to - 1)]
    const days = this.list().filter(day => day >= first && day <= last)
    return [emptyCatalog, ...days.map(day => `"${day}"`)]
  }

  connect(): Promise<DuckDBConnection> {
    return this.#instance.connect()
  }

  /** Makes a day usable, with an empty file if there is none. */
  async attach(day: string): Promise<void> {
    if (!dayForm.test(day)) throw new Error(`${day} is not a day`)
    if (this.#attached.has(day)) return
    await this.#attachFile(day).catch(async error => {
      // A full disk leaves a part of a new file.
      await this.#setAside(day, error)
      await this.#attachFile(day)
    })
  }

  async #attachFile(day: string): Promise<void> {
    await this.#connection.run(`attach ${literal(this.#fileOf(day))} as "${day}" (storage_version '${storageVersion}')`)
    try {
      await this.#connection.run(tables(`"${day}"`))
    } catch (error) {
      await this.#connection.run(`detach "${day}"`)
      throw error
    }
    this.#attached.add(day)
  }

  /** Removes a day with its file. Questions that are reading it end first. */
  async remove(day: string): Promise<void> {
    if (this.#attached.delete(day)) await this.#connection.run(`detach "${day}"`)
    await rm(this.#fileOf(day), { force: true })
    await rm(`${this.#fileOf(day)}.wal`, { force: true })
    await syncFolder(this.#folder)
  }

  /** Removes what was set aside: that of earlier days than one, or all. */
  async removeBroken(before?: string): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const [, day] = brokenForm.exec(name) ?? []
      if (day && (before === undefined || day < before)) await rm(join(this.#folder, name), { force: true })
    }
  }

  /** Bytes of all files, those that were set aside included. */
  async size(): Promise<number> {
    const broken = (await readdir(this.#folder)).filter(name => brokenForm.test(name))
    const names = this.list().flatMap(day => [this.#fileOf(day), `${this.#fileOf(day)}.wal`])
    for (const name of broken) names.push(join(this.#folder, name))
    const sizes = await Promise.all(names.map(name => stat(name).then(({ size }) => size, absent)))
    return sizes.reduce((sum, size) => sum + size, 0)
  }

  close(): void {
    this.#connection.closeSync()
    this.#instance.closeSync()
  }

  /**
   * Sets a broken file aside for someone who wants to know what happened; one day at most, so that they do not fill the disk. Throws the
   * error if it does not say that the file is broken.
   */
  async #setAside(day: string, error: unknown): Promise<void> {
    if (!isBroken(error)) throw error
    this.#onBroken(day, error)
    await this.removeBroken()
    for (const file of [this.#fileOf(day), `${this.#fileOf(day)}.wal`])
      await rename(file, `${file}.broken`).catch(error => absent(error))
    await syncFolder(this.#folder)
  }

  #fileOf(day: string): string {
    return join(this.#folder, `${day}.duckdb`)
  }
}

/** Errors of the engine about content that it cannot read, in contrast to what it cannot do now. */
const isBroken = (error: unknown): boolean =>
  /not a valid DuckDB database|Corrupt (database|WAL) file|Could not read enough bytes|Serialization Error/i.test(
    (error as Error).message,
  )

function absent(error: NodeJS.ErrnoException): number {
  if (error.code === 'ENOENT') return 0
  throw error
}
