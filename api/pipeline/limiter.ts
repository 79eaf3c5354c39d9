import type { Db } from '../../db/database.ts'
import { type CounterState, countRequest, countRequests, startBlock } from '../../db/limits.ts'
import type { Counter } from '../../policy/counters.ts'
import { ApiError } from '../../policy/errors.ts'

interface Refusal {
  counter: Counter
  waitMs: number
  /** The counter was exceeded just now: its block starts. */
  startsBlock: boolean
}

/** Decides whether a counted request is refused. Pure; the budget takes precedence over the endpoint's own limits. */
function refusalOf(counters: readonly Counter[], standings: readonly CounterState[]): Refusal | undefined {
  let worst: Refusal | undefined
  for (const standing of standings) {
    const counter = counters.find(c => c.key === standing.key)!
    const blocked = standing.blocked_ms > 0
    if (!blocked && standing.used <= counter.allow) continue
    const startsBlock = !blocked && counter.blockSeconds > 0
    const waitMs = blocked ? standing.blocked_ms : startsBlock ? counter.blockSeconds * 1000 : standing.window_ms
    const refusal = { counter, waitMs, startsBlock }
    if (!worst || outranks(refusal, worst)) worst = refusal
  }
  return worst
}

/** Of two refusals the one that the caller gets: a budget first, then the longer wait. */
function outranks(one: Refusal, other: Refusal): boolean {
  const [isBudget, otherIsBudget] = [one, other].map(({ counter }) => counter.code === 'RATE_LIMIT')
  return isBudget === otherIsBudget ? one.waitMs > other.waitMs : isBudget!
}

/** Counts the requests of one process. */
export class Limiter {
  readonly #db: Db

  constructor(db: Db) {
    this.#db = db
  }

  /** Counts a request `times` times, for instance once per object that it names. Throws KEEP_CALM or RATE_LIMIT when a limit is exceeded. */
  async admit(counters: readonly Counter[], times = 1): Promise<void> {
    if (counters.length === 0) return
    const standings =
      times === 1 ? await countRequest(this.#db, counters) : await countRequests(this.#db, counters, times)
    const refusal = refusalOf(counters, standings)
    if (!refusal) return
    await Promise.all(exceeded(counters, standings).map(counter => startBlock(this.#db, counter)))
    throw new ApiError(refusal.counter.code, undefined, Math.max(1, Math.ceil(refusal.waitMs / 1000)))
  }
}

function exceeded(counters: readonly Counter[], standings: readonly CounterState[]): Counter[] {
  return counters.filter(counter => {
    const standing = standings.find(s => s.key === counter.key)
    return standing && counter.blockSeconds > 0 && standing.blocked_ms === 0 && standing.used > counter.allow
  })
}
