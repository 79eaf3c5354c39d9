import pg from 'pg'
import { isUnavailable } from './unavailable.ts'

/** The id that Postgres gives a transaction, and the history it belongs to: both are read with BEGIN. */
export interface TransactionName {
  xid: string
  timeline: string
}

/**
 * The history in which a transaction id means one transaction. A promotion starts another history, and so does a crash, after which
 * Postgres may reuse ids that nothing on disk mentions: it discards its statistics then, as nothing else does.
 */
export const timelineNow = `left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' ' || (select stats_reset from pg_stat_bgwriter)`

/** Replaces BEGIN, in the same message: the name identifies a transaction whose COMMIT is lost. */
const namedBegin = `BEGIN; select pg_current_xact_id()::text as xid, ${timelineNow} as timeline`

/**
 * A process of the server. After a restart, above all in a container, its pid may be reused; pid and start time together are unique.
 */
export interface ServerProcess {
  pid: number
  startedAt: string
}

/** Queried on each connection as soon as it is open. */
export const serverProcessQuery = `select pid, backend_start::text as "startedAt" from pg_stat_activity where pid = pg_backend_pid()`

/** What Berth uses of a connection of the pool. */
export interface Connection {
  /** Knex discards a connection that carries this. */
  __knex__disposed?: unknown
  openedAt?: number
  pool?: Silence
  /** The one that it started last. */
  transaction?: TransactionName
  servedBy?: ServerProcess
  query(config: { name: string; text: string; values: unknown[]; query_timeout: number }): Promise<{ rows: unknown[] }>
  end(done: () => void): void
}

/** An error that carries the server process of its connection, where there was one. */
export interface UnansweredError {
  servedBy?: ServerProcess
}

/** The database that each new connection of a pool must lead to. */
interface DatabaseIdentity {
  /** Id of the installation. */
  id: string
  /** The newest epoch that a connection of this pool has found; an older one is a backup that was restored meanwhile. */
  epoch: number
  /** Called once, with the reason as a sentence. */
  onOther(why: string): void
  /** Whether `onOther` was called. */
  reported?: boolean
}

/** The rule of a pool for its new connections; null = none yet. */
export interface PoolRule {
  belonging: DatabaseIdentity | null
}

/** `settings` has rows once a process has confirmed its installation. */
export const identityQuery = `select (select value->>'id' from settings where name = 'installation') as id,
  coalesce((select (value->>'n')::float8 from settings where name = 'epoch'), 0) as epoch`

/**
 * Why a pool must not use connections to this database; null when it may. Stores the newest epoch. `seen` is the epoch that was known
 * when the query was sent: another connection may have stored a newer one since.
 */
function refusalOf(
  belonging: DatabaseIdentity,
  seen: number,
  row: { id: string | null; epoch: number } | undefined,
): string | null {
  const other = 'The database behind this address was replaced while this process ran'
  if (!row || row.id !== belonging.id)
    return `${other}: it belongs to installation ${row?.id ?? 'none'}, and not to ${belonging.id}.`
  if (row.epoch < seen) return `${other}: its state is older than what this process has seen.`
  belonging.epoch = Math.max(belonging.epoch, row.epoch)
  return null
}

type Callback = (error: unknown, result: unknown) => void

/** When a connection of this pool last got no answer, by `performance.now()`. */
interface Silence {
  since: number
}

/**
 * Ends a connection that got no answer: it may never answer again, and a late answer would be taken for that of the next query. Those
 * that were opened before are taken for dead too, because they share the network path. An error that the server reported changes nothing.
 */
export function endIfSilent(connection: Connection, error: unknown): void {
  if (!isUnavailable(error)) return
  ;(error as UnansweredError).servedBy = connection.servedBy
  if ((error as { severity?: unknown }).severity !== undefined) return
  if (connection.__knex__disposed) return
  connection.__knex__disposed = error
  if (connection.pool) connection.pool.since = performance.now()
  // The next query on it, such as a rollback, then fails immediately.
  connection.end(() => {})
}

/**
 * A client that closes its connection when it cannot log in. The driver leaves it open, for instance without a password, and a pool tries
 * again five times a second: the server, which waits a minute for each, would soon have none left for anyone.
 */
export class ClosingClient extends pg.Client {
  override connect(): Promise<this>
  override connect(callback: (error: Error | null, client: this) => void): void
  override connect(callback?: (error: Error | null, client: this) => void): Promise<this> | undefined {
    const connected = super.connect().catch(error => {
      this.connection.stream.destroy()
      throw error
    }) as Promise<this>
    if (!callback) return connected
    connected.then(
      () => callback(null, this),
      error => callback(error, this),
    )
    return undefined
  }
}

/** Settings of a pool that never hands out a connection that got no answer, whether from the query builder or from `statement`. */
export function answeringPool(rule: PoolRule = { belonging: null }) {
  const silence: Silence = { since: Number.NEGATIVE_INFINITY }
  return {
    afterCreate(connection: Connection, done: (error?: unknown) => void) {
      connection.pool = silence
      connection.openedAt = performance.now()
      const query = connection.query as (...args: unknown[]) => Promise<{ rows: unknown[] }>
      // The query builder passes a callback; `statement` awaits and checks itself. So neither pays for an additional promise.
      connection.query = (...args: unknown[]) => {
        const callback = args.at(-1)
        if (typeof callback !== 'function') return query.apply(connection, args)
        const isBegin = (args[0] as { text?: string }).text === 'BEGIN;'
        if (isBegin) args[0] = { text: namedBegin }
        args[args.length - 1] = (error: unknown, result: unknown) => {
          if (error) endIfSilent(connection, error)
          // The transaction was started but has no name: nothing would ever end it.
          if (error && isBegin) connection.__knex__disposed ??= error
          else if (isBegin) connection.transaction = (result as { rows: TransactionName[] }[])[1]?.rows[0]
          ;(callback as Callback)(error, result)
        }
        return query.apply(connection, args)
      }
      const onServerProcess: Callback = (error, result) => {
        connection.servedBy = (result as { rows: ServerProcess[] } | undefined)?.rows[0]
        const { belonging } = rule
        if (error || !belonging) return opened(error)
        const seen = belonging.epoch
        query.call(connection, identityQuery, (queryError: unknown, answer: unknown) => {
          // A database without the table is not the one that this process started with.
          const isTableMissing = (queryError as { code?: unknown } | null)?.code === '42P01'
          if (queryError && !isTableMissing) return opened(queryError)
          const row = (answer as { rows: { id: string | null; epoch: number }[] } | undefined)?.rows[0]
          const why = refusalOf(belonging, seen, row)
          if (why && !belonging.reported) {
            belonging.reported = true
            belonging.onOther(why)
          }
          opened(why ? new Error(why) : undefined)
        })
      }
      const opened = (error: unknown) => {
        if (error) connection.end(() => {})
        done(error)
      }
      query.call(connection, serverProcessQuery, onServerProcess)
    },
    validate: (connection: Connection) => (connection.openedAt ?? 0) > silence.since,
  }
}
