import type { Db } from '../../db/database.ts'
import { type CounterState, countRequest, countRequests, startBlock } from '../../db/limits.ts'
import type { Counter } from '../../policy/counters.ts'
import { CodedError } from '../../policy/errors.ts'

interface Excess {
  counter: Counter
  waitMs: number
  /** The counter was exceeded just now: its block starts. */
  startsBlock: boolean
}

/** Decides whether a counted request is refused. Pure; the budget takes precedence over the endpoint's own limits. */
function refusalOf(counters: readonly Counter[], standings: readonly CounterState[]): Excess | undefined {
  let worst: Excess | undefined
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
function outranks(one: Excess, other: Excess): boolean {
  const [isBudget, otherIsBudget] = [one, other].map(({ counter }) => counter.code === 'RATE_LIMIT')
  return isBudget === otherIsBudget ? one.waitMs > other.waitMs : isBudget!
}

/** Budgets that are remembered because they refuse; the oldest are forgotten first. */
export const maxRefusing = 10_000

/** Counts the requests of one process. */
export class Limiter {
  readonly #db: Db
  /** Keys of budgets that have refused a request, until this time of `performance.now()`. */
  readonly #refusing = new Map<string, number>()

  constructor(db: Db) {
    this.#db = db
  }

  /** Counts a request `times` times, for instance once per object that it names. Throws KEEP_CALM or RATE_LIMIT when a limit is exceeded. */
  async admit(counters: readonly Counter[], times = 1): Promise<void> {
    if (counters.length === 0) return
    await this.judge(
      counters,
      times === 1 ? await countRequest(this.#db, counters) : await countRequests(this.#db, counters, times),
    )
  }

  /** Judges a request that was counted. Throws as `admit` does. */
  async judge(counters: readonly Counter[], standings: readonly CounterState[]): Promise<void> {
    const refusal = refusalOf(counters, standings)
    if (!refusal) return
    this.#remember(refusal)
    await Promise.all(exceeded(counters, standings).map(counter => startBlock(this.#db, counter)))
    throw new CodedError(refusal.counter.code, undefined, Math.max(1, Math.ceil(refusal.waitMs / 1000)))
  }

  /** Whether one of these budgets has refused a request of this process, and may still refuse the next one. */
  hasRefused(counters: readonly Counter[]): boolean {
    return counters.some(({ key }) => (this.#refusing.get(key) ?? 0) > performance.now())
  }

  #remember({ counter: { key, code }, waitMs }: Excess): void {
    if (code !== 'RATE_LIMIT') return
    const now = performance.now()
    this.#refusing.delete(key)
    this.#refusing.set(key, now + waitMs)
    for (const [oldest, until] of this.#refusing) {
      if (until > now && this.#refusing.size <= maxRefusing) break
      this.#refusing.delete(oldest)
    }
  }
}

/** Work that has counted a request with its own statement. */
export interface CountedWork {
  standings: readonly CounterState[]
}

/** Counts one request once: by itself, or with the statement of its endpoint. */
export class Counting {
  readonly #limiter: Limiter
  readonly #counters: readonly Counter[]
  #isCounted = false
  #isRefused = false

  constructor(limiter: Limiter, counters: readonly Counter[]) {
    this.#limiter = limiter
    this.#counters = counters
  }

  get isCounted(): boolean {
    return this.#isCounted
  }

  /** Whether a limit has refused the request. */
  get isRefused(): boolean {
    return this.#isRefused
  }

  /** Whether the caller is likely to be refused, so that nothing of the request is worth doing before it is counted. */
  get isDoubtful(): boolean {
    return this.#limiter.hasRefused(this.#counters)
  }

  /** Counts the request unless that was done. Throws KEEP_CALM or RATE_LIMIT when a limit is exceeded. */
  async count(): Promise<void> {
    if (!this.#isCounted) await this.#once(this.#limiter.admit(this.#counters))
  }

  /** Has `work` count the request, which must not have been counted yet. Throws as `count` does. */
  async countedBy<T extends CountedWork>(work: (counters: readonly Counter[]) => Promise<T>): Promise<T> {
    const judged = work(this.#counters).then(async done => {
      await this.#limiter.judge(this.#counters, done.standings)
      return done
    })
    return this.#once(judged)
  }

  /** A count that fails may have been made. */
  async #once<T>(counted: Promise<T>): Promise<T> {
    this.#isCounted = true
    return counted.catch(error => {
      this.#isRefused ||= isLimit(error)
      throw error
    })
  }
}

const isLimit = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === 'RATE_LIMIT' || error.code === 'KEEP_CALM')

function exceeded(counters: readonly Counter[], standings: readonly CounterState[]): Counter[] {
  return counters.filter(counter => {
    const standing = standings.find(s => s.key === counter.key)
    return standing && counter.blockSeconds > 0 && standing.blocked_ms === 0 && standing.used > counter.allow
  })
}
