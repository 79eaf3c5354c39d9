import type { Counter } from '../policy/counters.ts'
import type { Bucket } from '../policy/limits.ts'
import type { Db } from './database.ts'
import { deleteExpired } from './expired-rows.ts'
import { batchedOverSubjects } from './shared-batches.ts'
import { statement } from './statement.ts'

/** One counter after a request was counted. */
export interface CounterState {
  key: string
  used: number
  /** Milliseconds until the window ends, and until a block ends (0 = none). */
  window_ms: number
  blocked_ms: number
}

const count = statement<CounterState>('limits.count', 'select * from count_requests($1, $2, $3, $4)')

/** Requests that are counted on one counter, and the fewest that any of them is allowed in its window. */
export interface CounterRequests {
  counter: Counter
  requests: number
  allow: number
}

/** Counts requests on every counter, which waits at most `lockMs` for a locked row; 0 = as long as a statement may take. */
export function countAll(db: Db, countings: readonly CounterRequests[], lockMs = 0): Promise<CounterState[]> {
  return count(db, [
    countings.map(({ counter }) => counter.key),
    countings.map(({ counter }) => counter.perSeconds),
    countings.map(({ requests }) => requests),
    lockMs,
  ])
}

/**
 * Counts `requests` requests on every counter, by the database's clock, and returns the counters after the last of them. Requests
 * refused during a block are not counted, so that the end of the block lets requests through.
 */
export function countRequests(db: Db, counters: readonly Counter[], requests: number): Promise<CounterState[]> {
  return countAll(
    db,
    counters.map(counter => ({ counter, requests, allow: counter.allow })),
  )
}

/** The counters of requests that are counted together, once each. */
export function countedTogether(requests: readonly (readonly Counter[])[]): CounterRequests[] {
  const countings = new Map<string, CounterRequests>()
  for (const counter of requests.flat()) {
    const { allow } = counter
    const counting = countings.get(counter.key)
    if (counting) Object.assign(counting, { requests: counting.requests + 1, allow: Math.min(counting.allow, allow) })
    else countings.set(counter.key, { counter, requests: 1, allow })
  }
  return [...countings.values()]
}

/** The counter states each request saw: the last request of a counter sees the final count, each earlier one a count one lower. */
export function standingsOfEach(
  requests: readonly (readonly Counter[])[],
  states: readonly CounterState[],
): CounterState[][] {
  const last = new Map(states.map(state => [state.key, state]))
  const standings = requests.map((): CounterState[] => [])
  for (const [n, counters] of [...requests.entries()].reverse())
    for (const { key } of counters) {
      const state = last.get(key)!
      standings[n]!.push(state)
      last.set(key, { ...state, used: state.used - 1 })
    }
  return standings
}

const countBatched = batchedOverSubjects<readonly Counter[], CounterState[]>(
  async (db, requests, lockMs) => standingsOfEach(requests, await countAll(db, countedTogether(requests), lockMs)),
  { subjectOf: counters => counters.map(({ key }) => key).join(' ') },
)

/**
 * Counts one request, as `countRequests` does. Requests of all accounts that arrive together share a statement, and do not compete for
 * the rows of a busy account.
 */
export const countRequest: (db: Db, counters: readonly Counter[]) => Promise<CounterState[]> = countBatched

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
  `update rate_limits set used = greatest(used - 1, 0)
    where key in (select key from rate_limits where key = any($1::text[]) and window_ends_at > now() order by key collate "C" for update)`,
)

/** Uncounts one request that must not count after all. */
export async function uncountRequest(db: Db, counters: readonly Counter[]): Promise<void> {
  await giveOneBack(db, [counters.map(counter => counter.key)])
}

const take = statement<{ taken: boolean }>('limits.take', 'select take_from_bucket($1, $2, $3) as taken')

/**
 * Takes one token from a bucket that holds `burst` and refills by one per `everySeconds`; false when it is empty. A transaction that
 * is rolled back takes nothing.
 */
export async function takeFromBucket(db: Db, key: string, { burst, everySeconds }: Bucket): Promise<boolean> {
  return (await take(db, [key, everySeconds, burst]))[0]?.taken ?? false
}

/** Deletes counters whose window and block are over. */
export function sweepCounters(db: Db): Promise<number> {
  const when = 'old.window_ends_at < now() and (old.blocked_until is null or old.blocked_until < now())'
  return deleteExpired(db, { table: 'rate_limits', when })
}
