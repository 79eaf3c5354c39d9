import type { Counter } from '../policy/counters.ts'
import type { Bucket } from '../policy/limits.ts'
import { batched } from './batched.ts'
import type { Db } from './database.ts'
import { deleteExpired } from './expired-rows.ts'
import { statement } from './statement.ts'

/** One counter after a request was counted. */
export interface CounterState {
  key: string
  used: number
  /** Milliseconds until the window ends, and until a block ends (0 = none). */
  window_ms: number
  blocked_ms: number
}

const count = statement<CounterState>(
  'limits.count',
  `insert into rate_limits as r (key, used, window_ends_at)
   select key, $3::integer, now() + make_interval(secs => seconds) from unnest($1::text[], $2::float8[]) as w (key, seconds)
   on conflict (key) do update set
     used = case when r.blocked_until > now() then 0 when r.window_ends_at <= now() then $3 else r.used + $3 end,
     window_ends_at = case when r.window_ends_at <= now() then excluded.window_ends_at else r.window_ends_at end
   returning key, used,
     (extract(epoch from window_ends_at - now()) * 1000)::float8 as window_ms,
     coalesce(greatest(extract(epoch from blocked_until - now()) * 1000, 0), 0)::float8 as blocked_ms`,
)

/**
 * Counts `requests` requests on every counter, by the database's clock, and returns the counters after the last of them. Rows are
 * locked in the given order. Requests refused during a block are not counted, so that the end of the block lets requests through.
 */
export async function countRequests(db: Db, counters: readonly Counter[], requests: number): Promise<CounterState[]> {
  return count(db, [counters.map(counter => counter.key), counters.map(counter => counter.perSeconds), requests])
}

const countBatched = batched<readonly Counter[], CounterState[]>(async (db, _, calls) => {
  const standings = await countRequests(db, calls[0]!, calls.length)
  return calls.map((_, n) => earlier(standings, calls.length - 1 - n))
})

/** Counts one request, as `countRequests` does; requests of one process do not compete for the rows of a busy account. */
export const countRequest = (db: Db, counters: readonly Counter[]): Promise<CounterState[]> =>
  countBatched(db, counters.map(counter => counter.key).join(' '), counters)

/** The counters as they were `requests` requests earlier. */
const earlier = (standings: readonly CounterState[], requests: number): CounterState[] =>
  standings.map(standing => ({ ...standing, used: standing.used - requests }))

const block = statement<never>(
  'limits.block',
  `update rate_limits set blocked_until = now() + make_interval(secs => $2::float8)
    where key = $1 and (blocked_until is null or blocked_until <= now())`,
)

/** Starts a block unless one is active: refused requests do not extend it. */
export async function startBlock(db: Db, counter: Counter): Promise<void> {
  await block(db, [counter.key, counter.blockSeconds])
}

const giveOneBack = statement<never>(
  'limits.give-back',
  'update rate_limits set used = greatest(used - 1, 0) where key = any($1::text[]) and window_ends_at > now()',
)

/** Uncounts one request that must not count after all. */
export async function uncountRequest(db: Db, counters: readonly Counter[]): Promise<void> {
  await giveOneBack(db, [counters.map(counter => counter.key)])
}

const take = statement<never>(
  'limits.take',
  `insert into rate_limits as r (key, used, window_ends_at) values ($1, 0, now() + make_interval(secs => $2::float8))
   on conflict (key) do update set window_ends_at = greatest(r.window_ends_at, now()) + make_interval(secs => $2::float8)
     where greatest(r.window_ends_at, now()) <= now() + make_interval(secs => $2::float8 * ($3::float8 - 1))
   returning 1`,
)

/**
 * Takes one token from a bucket that holds `burst` and refills by one per `everySeconds`; false when it is empty. A transaction that
 * is rolled back takes nothing. The row's window end is when the bucket will be full again.
 */
export async function takeFromBucket(db: Db, key: string, { burst, everySeconds }: Bucket): Promise<boolean> {
  return (await take(db, [key, everySeconds, burst])).length > 0
}

/** Deletes counters whose window and block are over. */
export function sweepCounters(db: Db): Promise<number> {
  const when = 'old.window_ends_at < now() and (old.blocked_until is null or old.blocked_until < now())'
  return deleteExpired(db, { table: 'rate_limits', when })
}
