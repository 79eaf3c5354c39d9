import type { HostReading } from './host-reader.ts'

interface Seen {
  into: number
  out: number
  at: number
  rate: readonly [number, number]
}

const still = [0, 0] as const
const most = 10_000
/** Readings closer together than this say nothing new. */
const shortestMs = 500

/** `network.now`: bytes per second between two readings of one application, in this process. */
export class NetworkRates {
  #seen = new Map<string, Seen>()

  /** Zero until there are two readings of one run to compare. */
  of(appId: string, reading: HostReading | null, at: number): readonly [number, number] {
    if (!reading?.stats) return still
    const { networkIn: into, networkOut: out } = reading.stats
    const before = this.#seen.get(appId)
    if (before && at - before.at < shortestMs) return before.rate
    const goesOn = before !== undefined && into >= before.into && out >= before.out
    const seconds = before ? (at - before.at) / 1000 : 1
    const rate = goesOn
      ? ([Math.round((into - before.into) / seconds), Math.round((out - before.out) / seconds)] as const)
      : still
    if (this.#seen.size >= most) this.#seen.clear()
    this.#seen.set(appId, { into, out, at, rate })
    return rate
  }
}
