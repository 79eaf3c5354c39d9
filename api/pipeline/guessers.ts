import { guesserTerms } from '../../policy/accounts/address-limits.ts'
import { networkOf } from '../http/address.ts'

const most = 10_000
/** A blocked address is answered once in this time, so that a flood of its own making waits for itself and for nobody else. */
const paceMs = 5
/** Well within what a request may take to be admitted. */
const longestWaitMs = 1000

interface Record {
  since: number
  misses: number
  blockedUntil: number
  /** When the next refusal has its turn. */
  turn: number
  /** Hashes that were looked up and belong to no account. */
  unknown: Set<string>
}

/**
 * Addresses that insist on keys of no account (contract 1.16). A blocked address gets 401 for keys that are known
 * to be unknown without a look-up; a key that has not been looked up yet still is, so valid keys go on. Kept per process, without
 * a word to the others: each of several counts to its share of the whole.
 */
export class Guessers {
  #records = new Map<string, Record>()
  readonly #allowed: number

  constructor(processes = 1) {
    this.#allowed = Math.ceil(guesserTerms.keys / processes)
  }

  /** Notes a key of no account; `hash` is absent when its form alone betrayed it. */
  miss(address: string, hash: string | undefined, now: number): void {
    const source = networkOf(address)
    let record = this.#records.get(source)
    if (!record || (now - record.since > guesserTerms.withinMs && now >= record.blockedUntil)) {
      if (this.#records.size >= most) this.#records.clear()
      record = { since: now, misses: 0, blockedUntil: 0, turn: 0, unknown: new Set() }
      this.#records.set(source, record)
    }
    if (hash && record.unknown.size < 1000) record.unknown.add(hash)
    if (++record.misses >= this.#allowed)
      record.blockedUntil = Math.max(record.blockedUntil, now + guesserTerms.blockMs)
  }

  refuses(address: string, hash: string, now: number): boolean {
    return this.#blocked(address, now)?.unknown.has(hash) ?? false
  }

  /** How many ms a refusal to this address is to wait for its turn; 0 where nobody insists. */
  waitOf(address: string, now: number): number {
    const record = this.#blocked(address, now)
    if (!record) return 0
    const wait = Math.min(Math.max(0, record.turn - now), longestWaitMs)
    record.turn = now + wait + paceMs
    return wait
  }

  #blocked(address: string, now: number): Record | undefined {
    if (this.#records.size === 0) return undefined
    const record = this.#records.get(networkOf(address))
    return record && record.blockedUntil > now ? record : undefined
  }
}
