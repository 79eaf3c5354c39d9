import { KiB } from '../../lib/bytes.ts'
import type { OutputStream } from './output.ts'
import { StampedFrames, type StampedPart } from './stamps.ts'

export interface OutputLine {
  stream: OutputStream
  /** Without its line end. */
  text: string
  /** When its end was printed, in nanoseconds since 1970 by the engine's clock. */
  at: bigint
}

/** A longer line comes in pieces of at most so many bytes. */
const longestBytes = 64 * KiB
const newline = 10
const none = Buffer.alloc(0)

/**
 * Makes lines of the engine's frames, each with its time before it, of each stream by itself. A character is never cut: lines are,
 * as bytes, where it ends.
 */
export class OutputLines {
  readonly #frames = new StampedFrames()
  readonly #rest: Record<OutputStream, Buffer> = { stdout: none, stderr: none }
  #newest = 0n

  push(chunk: Buffer): OutputLine[] {
    return this.#frames.take(chunk).flatMap(part => this.#lines(part))
  }

  /** What was printed last, without a line end. */
  end(): OutputLine[] {
    const left = (['stdout', 'stderr'] as const).filter(stream => this.#rest[stream].length > 0)
    return left.map(stream => ({ stream, text: textOf(this.#rest[stream]), at: this.#newest }))
  }

  #lines({ stream, bytes, at }: StampedPart): OutputLine[] {
    this.#newest = at
    const rest = this.#rest[stream]
    const lines: OutputLine[] = []
    let data = rest.length > 0 ? Buffer.concat([rest, bytes]) : bytes
    for (;;) {
      const end = data.indexOf(newline)
      const whole = end >= 0 && end <= longestBytes
      if (!whole && data.length <= longestBytes) break
      const cut = whole ? end : characterEnd(data, longestBytes)
      lines.push({ stream, text: textOf(data.subarray(0, cut)), at })
      data = data.subarray(whole ? cut + 1 : cut)
    }
    // A copy: it would keep the whole chunk alive.
    this.#rest[stream] = Buffer.from(data)
    return lines
  }
}

function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return text.endsWith('\r') ? text.slice(0, -1) : text
}

/** The last place at or before `index` where a character begins. No character has more than 4 bytes. */
function characterEnd(bytes: Buffer, index: number): number {
  for (let at = index; at > index - 4; at--) if (((bytes[at] ?? 0) & 0xc0) !== 0x80) return at
  return index
}
