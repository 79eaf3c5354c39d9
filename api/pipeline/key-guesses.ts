import { keyGuessLimit } from '../../policy/accounts/address-limits.ts'
import { networkOf } from '../http/address.ts'

const maxRecords = 10_000
/** A blocked address gets one answer per this time, so that its flood delays only itself. */
const paceMs = 5
/** Well within the time in which a request must be admitted. */
const maxWaitMs = 1000

interface Record {
  since: number
  misses: number
  blockedUntil: number
  /** When the next refusal may be sent. */
  nextAt: number
  /** Hashes that were looked up and belong to no account. */
  unknown: Set<string>
}

/**
 * Addresses that keep trying keys of no account (contract 1.16). A blocked address gets 401 without a lookup for keys that were
 * looked up before and not found; other keys are still looked up, so valid ones keep working. Each process counts by itself, up to
 * its share of the limit.
 */
export class KeyGuesses {
  #records = new Map<string, Record>()
  readonly #allowed: number

  constructor(processes = 1) {
    this.#allowed = Math.ceil(keyGuessLimit.keys / processes)
  }

  /** Counts a key of no account; `hash` is undefined if its form alone gave it away. */
  miss(address: string, hash: string | undefined, now: number): void {
    const source = networkOf(address)
    let record = this.#records.get(source)
    if (!record || (now - record.since > keyGuessLimit.withinMs && now >= record.blockedUntil)) {
      if (this.#records.size >= maxRecords) this.#records.clear()
      record = { since: now, misses: 0, blockedUntil: 0, nextAt: 0, unknown: new Set() }
      this.#records.set(source, record)
    }
    if (hash && record.unknown.size < 1000) record.unknown.add(hash)
    if (++record.misses >= this.#allowed)
      record.blockedUntil = Math.max(record.blockedUntil, now + keyGuessLimit.blockMs)
  }

  refuses(address: string, hash: string, now: number): boolean {
    return this.#blocked(address, now)?.unknown.has(hash) ?? false
  }

  /** Milliseconds by which a refusal to this address is delayed; 0 for an address that is not blocked. */
  waitOf(address: string, now: number): number {
    const record = this.#blocked(address, now)
    if (!record) return 0
    const wait = Math.min(Math.max(0, record.nextAt - now), maxWaitMs)
    record.nextAt = now + wait + paceMs
    return wait
  }

  #blocked(address: string, now: number): Record | undefined {
    if (this.#records.size === 0) return undefined
    const record = this.#records.get(networkOf(address))
    return record && record.blockedUntil > now ? record : undefined
  }
}
