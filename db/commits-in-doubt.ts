import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import { acceptance } from '../policy/acceptance.ts'
import { type Connection, type ServerProcess, type TransactionName, timelineNow } from './connection.ts'
import { isUnavailable } from './unavailable.ts'

/** SQLSTATE `transaction_resolution_unknown`: it could not be found out whether it was committed. The caller looks again. */
export class CommitInDoubt extends Error {
  override name = 'CommitInDoubt'
  readonly code = '08007'

  constructor(cause: unknown) {
    super('whether the transaction was committed is not known', { cause })
  }
}

/** The name of the transaction that a connection is running. */
export async function transactionName(trx: Knex): Promise<TransactionName | undefined> {
  const connection: Connection = await trx.client.acquireConnection()
  return connection.transaction
}

/**
 * The outcome of a transaction whose COMMIT was sent and not answered: true when it is committed, false when it is not and never will
 * be. Throws CommitInDoubt when Postgres does not know within 2 s, as when it is down, or waits for a standby itself.
 */
export async function isCommitted(
  db: Knex,
  { xid, timeline }: TransactionName,
  cause: unknown,
  by = performance.now() + acceptance.lookMs,
): Promise<boolean> {
  const isKnown = (status: string | null) => status === 'committed' || status === 'aborted'
  return (await pollUntil(isKnown, () => statusOf(db, xid, timeline), cause, by)) === 'committed'
}

/**
 * Waits until a server process has ended whose client has given it up: the statement sent to it is committed then, or never will be.
 * Throws CommitInDoubt after 2 s.
 */
export async function awaitServerProcessEnd(
  db: Knex,
  { pid, startedAt }: ServerProcess,
  cause: unknown,
  by = performance.now() + acceptance.lookMs,
): Promise<void> {
  const end = () => endIdle(db, `pid = ? and backend_start = ?::timestamptz`, [pid, startedAt])
  await pollUntil(remaining => remaining === 0, end, cause, by)
}

/** Repeats a query until its answer is final; throws CommitInDoubt at the deadline `by`. */
async function pollUntil<T>(
  isFinal: (answer: T) => boolean,
  query: () => Promise<T>,
  cause: unknown,
  by: number,
): Promise<T> {
  for (;;) {
    const answer = await answerBefore(query, by)
    if (answer !== undefined && isFinal(answer)) return answer
    if (performance.now() + acceptance.againMs > by) throw new CommitInDoubt(cause)
    await sleep(acceptance.againMs)
  }
}

/** After a promotion or a crash the same number may be another transaction: the status of this one is unknown. */
async function statusOf(db: Knex, xid: string, timeline: string): Promise<string | null> {
  await endIdle(db, `backend_xid = ?::xid8::xid and ${timelineNow} = ?`, [xid, timeline])
  const { rows } = await db.raw(`select pg_xact_status(?::xid8) as status where ${timelineNow} = ?`, [xid, timeline])
  return rows[0]?.status ?? null
}

/**
 * Ends a server process that waits for a message which may arrive much later, or never; one that is running a statement may finish it.
 * Resolves to the number of such processes.
 */
async function endIdle(db: Knex, which: string, values: (string | number)[]): Promise<number> {
  const { rows } = await db.raw(
    `select case when state <> 'active' then pg_terminate_backend(pid) end from pg_stat_activity
      where ${which} and usename = current_user and datname = current_database() and pid <> pg_backend_pid()`,
    values,
  )
  return rows.length
}

/** Undefined when Postgres does not answer, or not before `by`: the next query has another connection. */
async function answerBefore<T>(query: () => Promise<T>, by: number): Promise<T | undefined> {
  const ms = Math.max(0, Math.min(by - performance.now(), acceptance.tryMs))
  const answer = query().catch(error => {
    if (!isUnavailable(error)) throw error
    return undefined
  })
  return Promise.race([answer, sleep(ms, undefined)])
}
