import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import knexFactory, { type Knex } from 'knex'
import { databaseTimeouts } from '../policy/timeouts.ts'
import { CommitInDoubt, isCommitted, transactionName } from './commits-in-doubt.ts'
import { answeringPool, ClosingClient, identityQuery, type PoolRule, type TransactionName } from './connection.ts'
import { buildIndexes, type Indexes } from './migration-locks.ts'
import { isUnavailable, isWithoutEffect, sqlState } from './unavailable.ts'

const { connectionMs, statementMs, answerMs, connectionLifeMs, clientAwayMs } = databaseTimeouts

export { isUnavailable, isWithoutEffect, sqlState }

/** A pool or a transaction of Postgres: every function of `db/` takes one first. */
export type Db = Knex

export interface DatabaseOptions {
  url: string
  pool: number
  statementTimeoutMs?: number
  /** Seen by operators in pg_stat_activity. */
  applicationName?: string
  /** How long a connection is used, in milliseconds; tests use it for less. */
  lifeMs?: number
  /** How long a transaction may pause between two statements, in milliseconds; 0 = as long as it wants, for tests that hold locks. */
  idleTransactionMs?: number
  /** How long a statement waits for a free connection, in milliseconds; dozens of tests of a file start concurrently. */
  waitMs?: number
}

const silent = { warn() {}, error() {}, deprecate() {}, debug() {} }

/**
 * Settings of the server for one of our sessions, by which it notices within `clientAwayMs` that the machine of its client has vanished:
 * then what this has locked is free again. On whole seconds: an idle connection is probed every fifth of the time.
 */
const noticesVanishedClient = [
  ...['idle', 'interval'].map(name => `-c tcp_keepalives_${name}=${clientAwayMs / 5000}`),
  '-c tcp_keepalives_count=4',
  `-c tcp_user_timeout=${clientAwayMs}`,
].join(' ')

/**
 * Opens a pool. Waiting over 2 s for a connection rejects; a statement that runs over 5 s is cancelled, and a transaction that pauses for
 * over 10 s is rolled back.
 */
export function openDatabase({
  url,
  pool,
  statementTimeoutMs = statementMs,
  applicationName = 'berth',
  lifeMs = connectionLifeMs,
  waitMs = connectionMs,
  idleTransactionMs = databaseTimeouts.idleTransactionMs,
}: DatabaseOptions): Db {
  const rule: PoolRule = { belonging: null }
  const db = knexFactory({
    client: 'pg',
    compileSqlOnError: false, // an error is logged, and values of a statement may be secret
    log: silent, // knex would write plain text into the process's own log, and of errors that are thrown anyway
    connection: {
      connectionString: url,
      application_name: applicationName,
      statement_timeout: statementTimeoutMs,
      // A stopped server or a cut connection cannot cancel by the server's clock.
      query_timeout: statementTimeoutMs + answerMs,
      idle_in_transaction_session_timeout: idleTransactionMs,
      options: noticesVanishedClient,
      connectionTimeoutMillis: connectionMs,
      keepAlive: true,
    },
    pool: {
      min: 0,
      max: pool,
      acquireTimeoutMillis: waitMs,
      createTimeoutMillis: connectionMs,
      propagateCreateError: false,
      // Bounds how long a process keeps using a database that was replaced: only new connections are checked.
      maxConnectionLifetimeMillis: lifeMs,
      ...answeringPool(rule),
    },
    migrations: { migrationSource },
  })
  db.client.driver = { ...db.client.driver, Client: ClosingClient }
  rules.set(db, rule)
  return db
}

const rules = new WeakMap<Db, PoolRule>()

/**
 * From now on a pool refuses new connections to another installation, or to an older state of this one, as when a backup was restored
 * at its address; `onOther` receives the reason. Open connections lead to the old database, and are used for a minute at most.
 */
export async function pinDatabase(db: Db, onOther: (why: string) => void): Promise<void> {
  const rule = rules.get(db)
  const { rows } = await db.raw(identityQuery)
  if (rule) rule.belonging = { ...rows[0], onOther }
}

const migrationFolder = fileURLToPath(new URL('./migrations', import.meta.url))

/** A migration is known by its name without extension: tests load `.ts`, the product its compiled `.js`, and both meet one schema. */
const migrationSource: Knex.MigrationSource<string> = {
  getMigrations: async () =>
    (await readdir(migrationFolder)).filter(file => /\.(ts|js)$/.test(file) && !file.endsWith('.d.ts')).sort(),
  getMigrationName: file => file.replace(/\.(ts|js)$/, ''),
  getMigration: async file => import(pathToFileURL(join(migrationFolder, file)).href),
}

const retryable = new Set(['40001', '40P01'])

/**
 * Runs `work` in one transaction; serialization failures and deadlocks are retried, 3 times. When the answer to its COMMIT is lost or
 * late, the outcome is looked up in Postgres: resolves when it is committed, rejects when it never will be, and with CommitInDoubt
 * when that is not known within 2 s.
 */
export async function transaction<T>(db: Db, work: (trx: Knex.Transaction) => Promise<T>): Promise<T> {
  if (db.isTransaction) return transactionWithRetries(db, work) // its COMMIT belongs to the caller
  let committing: { name: TransactionName | undefined; value: T } | undefined
  try {
    return await transactionWithRetries(db, async trx => {
      committing = undefined
      const value = await work(trx)
      committing = { name: await transactionName(trx), value }
      return value
    })
  } catch (error) {
    if (!committing || !isUnavailable(error)) throw error
    const { name, value } = committing
    if (!name) throw new CommitInDoubt(error)
    if (await isCommitted(db, name, error)) return value
    throw error
  }
}

/** As `transaction`, for callers that learn its outcome in another way: rejects as soon as the answer to its COMMIT is lost. */
export function transactionWithRetries<T>(db: Db, work: (trx: Knex.Transaction) => Promise<T>): Promise<T> {
  return withRetries(() => db.transaction(work))
}

/** Repeats a transaction or statement after serialization failures and deadlocks, 3 times. */
export async function withRetries<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt > 3 || !retryable.has(sqlState(error))) throw error
    }
  }
}

/**
 * Brings the schema up to date, each migration in its own transaction, so that none holds its locks while others run. Rejects for a schema
 * of a newer version. Called by `berth up` and the test kit; processes that do so concurrently are serialized by the lock row of knex.
 */
export async function migrate(db: Db): Promise<void> {
  while (await migrateNext(db));
}

/** Runs the next migration, after the `indexes` that it exports have been built, and resolves to its name; null without one. */
export async function migrateNext(db: Db): Promise<string | null> {
  const [, [file]]: [unknown[], string[]] = await db.migrate.list()
  if (!file) return null
  const name = migrationSource.getMigrationName(file)
  const { indexes }: Knex.Migration & { indexes?: Indexes } = await migrationSource.getMigration(file)
  if (indexes) await buildIndexes(db, indexes)
  await withRetries(() => db.migrate.up({ name }))
  return name
}

/** Whether this transaction got the lock of a named round of work; one transaction over all processes does, the others skip the round. */
export async function tryRoundLock(trx: Db, round: string): Promise<boolean> {
  const { rows } = await trx.raw(`select pg_try_advisory_xact_lock(hashtext(?)) as mine`, [`berth.${round}`])
  return rows[0].mine
}
