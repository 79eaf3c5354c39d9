import { OutputFrames, type OutputStream } from './output.ts'

export interface StampedPart {
  stream: OutputStream
  bytes: Buffer
  /** When the engine received it from the program, in nanoseconds since 1970 by the engine's clock. */
  at: bigint
}

const space = 32

/** Parses the engine's output with `timestamps`: in each frame a time, a space, and the output. */
export class StampedFrames {
  readonly #frames = new OutputFrames()
  /** The incomplete time of a frame; null once it is complete. */
  #stamp: string | null = null
  #at = 0n

  take(chunk: Buffer): StampedPart[] {
    const parts: StampedPart[] = []
    for (const { stream, bytes, begins } of this.#frames.take(chunk)) {
      if (begins) this.#stamp = ''
      const rest = this.#stamp === null ? bytes : this.#afterStamp(this.#stamp, bytes)
      if (rest) parts.push({ stream, bytes: rest, at: this.#at })
    }
    return parts
  }

  #afterStamp(stamp: string, bytes: Buffer): Buffer | null {
    const end = bytes.indexOf(space)
    const text = stamp + bytes.toString('latin1', 0, end < 0 ? bytes.length : end)
    this.#stamp = end < 0 ? text : null
    if (end < 0) return null
    this.#at = nanosecondsOf(text)
    return bytes.subarray(end + 1)
  }
}

const perSecond = 1_000_000_000n

/** A time of RFC 3339 in nanoseconds since 1970. */
export function nanosecondsOf(stamp: string): bigint {
  const [, seconds, fraction = '', zone] = /^(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(stamp) ?? []
  if (seconds === undefined) throw new Error(`The container engine sent an invalid line time: ${stamp.slice(0, 40)}`)
  return BigInt(Date.parse(`${seconds}${zone}`) / 1000) * perSecond + BigInt(fraction.padEnd(9, '0'))
}

/** Nanoseconds since 1970 in the engine's format: seconds with nine decimals. */
export const engineTime = (nanoseconds: bigint): string =>
  `${nanoseconds / perSecond}.${String(nanoseconds % perSecond).padStart(9, '0')}`

/** The time of this machine in nanoseconds since 1970. */
export const nanosecondsNow = (): bigint => BigInt(Date.now()) * 1_000_000n
