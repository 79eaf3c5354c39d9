import { KiB } from '../../lib/bytes.ts'
import type { OutputStream } from './output.ts'
import { StampedFrames, type StampedPart } from './stamps.ts'

export interface OutputLine {
  stream: OutputStream
  /** Without the line end. */
  text: string
  /** When its end was printed, in nanoseconds since 1970 by the engine's clock. */
  at: bigint
}

/** A longer line is split into pieces of at most this size. */
const maxLineBytes = 64 * KiB
const newline = 10
const none = Buffer.alloc(0)

/**
 * Turns the engine's frames into lines, separately for each stream; each frame starts with its time. Lines are cut as bytes, never
 * inside a character.
 */
export class OutputLines {
  readonly #frames = new StampedFrames()
  readonly #rest: Record<OutputStream, Buffer> = { stdout: none, stderr: none }
  #newest = 0n

  push(chunk: Buffer): OutputLine[] {
    return this.#frames.take(chunk).flatMap(part => this.#lines(part))
  }

  /** The last output, without a line end. */
  end(): OutputLine[] {
    const unfinished = (['stdout', 'stderr'] as const).filter(stream => this.#rest[stream].length > 0)
    return unfinished.map(stream => ({ stream, text: textOf(this.#rest[stream]), at: this.#newest }))
  }

  #lines({ stream, bytes, at }: StampedPart): OutputLine[] {
    this.#newest = at
    const rest = this.#rest[stream]
    const lines: OutputLine[] = []
    let data = rest.length > 0 ? Buffer.concat([rest, bytes]) : bytes
    for (;;) {
      const end = data.indexOf(newline)
      const whole = end >= 0 && end <= maxLineBytes
      if (!whole && data.length <= maxLineBytes) break
      const cut = whole ? end : characterEnd(data, maxLineBytes)
      lines.push({ stream, text: textOf(data.subarray(0, cut)), at })
      data = data.subarray(whole ? cut + 1 : cut)
    }
    // Copied, because a slice would keep the whole chunk alive.
    this.#rest[stream] = Buffer.from(data)
    return lines
  }
}

function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return text.endsWith('\r') ? text.slice(0, -1) : text
}

/** The last index at or before `index` where a character starts. No character has more than 4 bytes. */
function characterEnd(bytes: Buffer, index: number): number {
  for (let at = index; at > index - 4; at--) if (((bytes[at] ?? 0) & 0xc0) !== 0x80) return at
  return index
}
