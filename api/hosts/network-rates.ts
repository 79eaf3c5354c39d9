import type { HostReading } from './host-reader.ts'

interface Sample {
  into: number
  out: number
  at: number
  rate: readonly [number, number]
}

const noTraffic = [0, 0] as const
const maxSamples = 10_000
/** Readings closer together than this reuse the earlier rate. */
const minIntervalMs = 500

/** `network.now`: bytes per second between two readings of one application or database, in this process. */
export class NetworkRates {
  #samples = new Map<string, Sample>()

  /** `now`: a monotonic clock in milliseconds. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Zero until there are two readings of one run to compare. */
  of(id: string, reading: HostReading | null): readonly [number, number] {
    if (!reading?.stats) return noTraffic
    const { networkIn: into, networkOut: out } = reading.stats
    const at = this.now()
    const before = this.#samples.get(id)
    if (before && at - before.at < minIntervalMs) return before.rate
    const isSameRun = before !== undefined && into >= before.into && out >= before.out
    const seconds = before ? (at - before.at) / 1000 : 1
    const rate = isSameRun
      ? ([Math.round((into - before.into) / seconds), Math.round((out - before.out) / seconds)] as const)
      : noTraffic
    if (this.#samples.size >= maxSamples) this.#samples.clear()
    this.#samples.set(id, { into, out, at, rate })
    return rate
  }
}
