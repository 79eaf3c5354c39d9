import { isUnavailable } from './unavailable.ts'

/** What Postgres calls a transaction, and the history that it is a part of: both are read with BEGIN. */
export interface TransactionName {
  xid: string
  timeline: string
}

/**
 * The history in which a number of a transaction means one transaction. A promotion begins another one, and so does a crash, after
 * which Postgres may give out numbers again that nothing on disk speaks of: it discards its statistics then, as nothing else does.
 */
export const timelineNow = `left(pg_walfile_name(pg_current_wal_lsn()), 8) || ' ' || (select stats_reset from pg_stat_bgwriter)`

/** Takes the place of BEGIN, in the same message: a transaction whose COMMIT gets lost can be asked for by this name. */
const namedBegin = `BEGIN; select pg_current_xact_id()::text as xid, ${timelineNow} as timeline`

/**
 * A process of the server. After a restart, in a container above all, its number may be another one's: the two together are given out
 * once.
 */
export interface ServerProcess {
  pid: number
  startedAt: string
}

/** Asked of each connection as soon as it is open. */
export const serverProcess = `select pid, backend_start::text as "startedAt" from pg_stat_activity where pid = pg_backend_pid()`

/** What is asked of a connection of the pool. */
export interface Connection {
  /** Knex throws a connection away that carries this. */
  __knex__disposed?: unknown
  openedAt?: number
  pool?: Silence
  /** The one that it began last. */
  transaction?: TransactionName
  servedBy?: ServerProcess
  query(config: { name: string; text: string; values: unknown[]; query_timeout: number }): Promise<{ rows: unknown[] }>
  end(done: () => void): void
}

/** An error that tells which server process was asked, where one was. */
export interface Unanswered {
  servedBy?: ServerProcess
}

/** What each new connection must find for its pool to use it. */
export interface Belonging {
  /** Id of the installation. */
  id: string
  /** The newest state that a connection of this pool has found; an older one is a backup that was restored meanwhile. */
  epoch: number
  /** Called once, with the reason as a sentence. */
  onOther(why: string): void
  /** Whether it was called. */
  left?: boolean
}

/** The rule of a pool for its new connections; null = none yet. */
export interface PoolRule {
  belonging: Belonging | null
}

/** `settings` is there once a process has confirmed its installation. */
export const belongingNow = `select (select value->>'id' from settings where name = 'installation') as id,
  coalesce((select (value->>'n')::float8 from settings where name = 'epoch'), 0) as epoch`

/**
 * Why a pool uses no connection to this database; null when it may. Remembers how new its state is. `seen` is the epoch that was known
 * when the question was sent: what another connection learned since may be newer than this answer.
 */
function refusalOf(
  belonging: Belonging,
  seen: number,
  found: { id: string | null; epoch: number } | undefined,
): string | null {
  const other = 'The database behind this address was replaced while this process ran'
  if (!found || found.id !== belonging.id)
    return `${other}: it belongs to installation ${found?.id ?? 'none'}, and not to ${belonging.id}.`
  if (found.epoch < seen) return `${other}: its state is older than what this process has seen.`
  belonging.epoch = Math.max(belonging.epoch, found.epoch)
  return null
}

type Answered = (error: unknown, result: unknown) => void

/** When a server last left a connection of this pool without an answer, by `performance.now()`. */
interface Silence {
  since: number
}

/**
 * Ends a connection that was left without an answer: it may never answer again, and its answers would belong to the question before.
 * Those that were opened before it are looked upon as dead too, as the same line carries them. An error that the server told changes
 * nothing.
 */
export function endIfSilent(connection: Connection, error: unknown): void {
  if (!isUnavailable(error)) return
  ;(error as Unanswered).servedBy = connection.servedBy
  if ((error as { severity?: unknown }).severity !== undefined) return
  if (connection.__knex__disposed) return
  connection.__knex__disposed = error
  if (connection.pool) connection.pool.since = performance.now()
  // Whoever asks it next, as a rollback does, learns at once that it is over.
  connection.end(() => {})
}

/** Settings of a pool that never hands out a connection which was left without an answer, whoever asked. */
export function answeringPool(rule: PoolRule = { belonging: null }) {
  const silence: Silence = { since: Number.NEGATIVE_INFINITY }
  return {
    afterCreate(connection: Connection, done: (error?: unknown) => void) {
      connection.pool = silence
      connection.openedAt = performance.now()
      const query = connection.query as (...given: unknown[]) => Promise<{ rows: unknown[] }>
      // The query builder gives a function, `statement` awaits and looks itself: neither pays for a promise more.
      connection.query = (...given: unknown[]) => {
        const answered = given.at(-1)
        if (typeof answered !== 'function') return query.apply(connection, given)
        const begins = (given[0] as { text?: string }).text === 'BEGIN;'
        if (begins) given[0] = { text: namedBegin }
        given[given.length - 1] = (error: unknown, result: unknown) => {
          if (error) endIfSilent(connection, error)
          // It began, and could not be named: nobody would end it.
          if (error && begins) connection.__knex__disposed ??= error
          else if (begins) connection.transaction = (result as { rows: TransactionName[] }[])[1]?.rows[0]
          ;(answered as Answered)(error, result)
        }
        return query.apply(connection, given)
      }
      const served: Answered = (error, result) => {
        connection.servedBy = (result as { rows: ServerProcess[] } | undefined)?.rows[0]
        const { belonging } = rule
        if (error || !belonging) return opened(error)
        const seen = belonging.epoch
        query.call(connection, belongingNow, (failed: unknown, answer: unknown) => {
          // Without the table it is not the database that this process has started with.
          const missing = (failed as { code?: unknown } | null)?.code === '42P01'
          if (failed && !missing) return opened(failed)
          const row = (answer as { rows: { id: string | null; epoch: number }[] } | undefined)?.rows[0]
          const why = refusalOf(belonging, seen, row)
          if (why && !belonging.left) {
            belonging.left = true
            belonging.onOther(why)
          }
          opened(why ? new Error(why) : undefined)
        })
      }
      const opened = (error: unknown) => {
        if (error) connection.end(() => {})
        done(error)
      }
      query.call(connection, serverProcess, served)
    },
    validate: (connection: Connection) => (connection.openedAt ?? 0) > silence.since,
  }
}
