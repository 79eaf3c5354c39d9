import { StringDecoder } from 'node:string_decoder'

export type OutputStream = 'stdout' | 'stderr'

export interface FramePart {
  stream: OutputStream
  bytes: Buffer
  /** False for the rest of a frame that was cut between two chunks. */
  begins: boolean
}

/**
 * Parses the engine's frames (1 byte stream, 3 zero, 4 length, then the bytes) into stdout and stderr in the order
 * they came. Frames and multibyte characters may be cut anywhere between two chunks.
 */
export class OutputFrames {
  #held = Buffer.alloc(0)
  #left = 0
  #begins = false
  #stream: OutputStream = 'stdout'
  readonly #decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') }

  /** Both streams as one text. */
  push(chunk: Buffer): string {
    return this.take(chunk)
      .map(({ stream, bytes }) => this.#decoders[stream].write(bytes))
      .join('')
  }

  /** Each stream's bytes, which share memory with the chunk, and whether a frame starts with them. */
  take(chunk: Buffer): FramePart[] {
    let data = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    const parts: FramePart[] = []
    for (;;) {
      if (this.#left === 0) {
        if (data.length < 8) break
        this.#stream = data[0] === 2 ? 'stderr' : 'stdout'
        this.#left = data.readUInt32BE(4)
        this.#begins = true
        data = data.subarray(8)
        continue
      }
      if (data.length === 0) break
      const bytes = data.subarray(0, this.#left)
      parts.push({ stream: this.#stream, bytes, begins: this.#begins })
      this.#begins = false
      this.#left -= bytes.length
      data = data.subarray(bytes.length)
    }
    this.#held = Buffer.from(data)
    return parts
  }
}

/** The newest `maxBytes` of a text in UTF-8; when cut, it starts at the start of a line. */
export function newest(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  const cut = bytes.subarray(bytes.length - maxBytes)
  const line = cut.indexOf(10)
  return cut.subarray(line < 0 || line === cut.length - 1 ? firstCharacter(cut) : line + 1).toString('utf8')
}

/** Index of the first byte that starts a character. */
function firstCharacter(bytes: Buffer): number {
  const index = bytes.findIndex(byte => (byte & 0xc0) !== 0x80)
  return index < 0 ? bytes.length : index
}
