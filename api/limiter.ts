import type { Db } from '../db/database.ts'
import { beginBlock, countRequests, type Standing } from '../db/limits.ts'
import { ApiError } from '../policy/errors.ts'
import type { Counter } from '../policy/limits.ts'

export interface Refusal {
  counter: Counter
  waitMs: number
  /** The counter has just been overrun: its block begins now. */
  begins: boolean
}

/** What the counters say to a request that has been counted. Pure; the budget speaks before the endpoint's own limits. */
export function refusalOf(counters: readonly Counter[], standings: readonly Standing[]): Refusal | undefined {
  let worst: Refusal | undefined
  for (const standing of standings) {
    const counter = counters.find(c => c.key === standing.key)!
    const blocked = standing.blocked_ms > 0
    if (!blocked && standing.used <= counter.allow) continue
    const begins = !blocked && counter.blockSeconds > 0
    const waitMs = blocked ? standing.blocked_ms : begins ? counter.blockSeconds * 1000 : standing.window_ms
    if (!worst || counter.code === 'RATE_LIMIT' || (worst.counter.code !== 'RATE_LIMIT' && waitMs > worst.waitMs))
      worst = { counter, waitMs, begins }
  }
  return worst
}

interface Waiting {
  resolve(standings: Standing[]): void
  reject(error: unknown): void
}

/**
 * Counts the requests of one process. Those that move the same counters while a statement for these is under way go together
 * in the next one: each is counted, none waits for more than two statements, and a busy account's row is not fought over.
 */
export class Limiter {
  #db: Db
  #lines = new Map<string, Waiting[]>()

  constructor(db: Db) {
    this.#db = db
  }

  /** Counts one request, or what a request names: so many at once. Throws KEEP_CALM or RATE_LIMIT when a counter is past its end. */
  async admit(counters: readonly Counter[], times = 1): Promise<void> {
    if (counters.length === 0) return
    const standings = times === 1 ? await this.#count(counters) : await countRequests(this.#db, counters, times)
    const refusal = refusalOf(counters, standings)
    if (!refusal) return
    await Promise.all(overrun(counters, standings).map(counter => beginBlock(this.#db, counter)))
    throw new ApiError(refusal.counter.code, undefined, Math.max(1, Math.ceil(refusal.waitMs / 1000)))
  }

  #count(counters: readonly Counter[]): Promise<Standing[]> {
    const name = counters.map(counter => counter.key).join(' ')
    const line = this.#lines.get(name)
    if (line) return new Promise((resolve, reject) => line.push({ resolve, reject }))
    this.#lines.set(name, [])
    const counted = countRequests(this.#db, counters, 1)
    const next = () => this.#together(name, counters)
    counted.then(next, next)
    return counted
  }

  #together(name: string, counters: readonly Counter[]): void {
    const waiting = this.#lines.get(name) ?? []
    if (waiting.length === 0) {
      this.#lines.delete(name)
      return
    }
    this.#lines.set(name, [])
    const next = () => this.#together(name, counters)
    countRequests(this.#db, counters, waiting.length)
      .then(
        standings => waiting.forEach(({ resolve }, i) => void resolve(earlier(standings, waiting.length - 1 - i))),
        error => waiting.forEach(({ reject }) => void reject(error)),
      )
      .then(next, next)
  }
}

/** How the counters stood so many requests before. */
function earlier(standings: readonly Standing[], requests: number): Standing[] {
  return standings.map(standing => ({ ...standing, used: standing.used - requests }))
}

function overrun(counters: readonly Counter[], standings: readonly Standing[]): Counter[] {
  return counters.filter(counter => {
    const standing = standings.find(s => s.key === counter.key)
    return standing && counter.blockSeconds > 0 && standing.blocked_ms === 0 && standing.used > counter.allow
  })
}
