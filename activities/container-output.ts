import { StringDecoder } from 'node:string_decoder'

/**
 * Takes the engine's frames (1 byte stream, 3 zero, 4 length, then the bytes) apart and gives stdout and stderr as text in
 * the order they came. Frames may be cut anywhere between two chunks; characters of several bytes too.
 */
export class OutputFrames {
  #held = Buffer.alloc(0)
  #left = 0
  #stream = 1
  readonly #decoders = [new StringDecoder('utf8'), new StringDecoder('utf8'), new StringDecoder('utf8')]

  push(chunk: Buffer): string {
    let data = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk
    let text = ''
    for (;;) {
      if (this.#left === 0) {
        if (data.length < 8) break
        this.#stream = Math.min(data[0] ?? 1, 2)
        this.#left = data.readUInt32BE(4)
        data = data.subarray(8)
        continue
      }
      if (data.length === 0) break
      const part = data.subarray(0, this.#left)
      text += this.#decoders[this.#stream]?.write(part) ?? ''
      this.#left -= part.length
      data = data.subarray(part.length)
    }
    this.#held = Buffer.from(data)
    return text
  }
}

/** The newest `maxBytes` of a text in UTF-8, starting at a line's start when something was cut. */
export function newest(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  const cut = bytes.subarray(bytes.length - maxBytes)
  const line = cut.indexOf(10)
  return cut.subarray(line < 0 || line === cut.length - 1 ? firstCharacter(cut) : line + 1).toString('utf8')
}

/** Index of the first byte that begins a character. */
function firstCharacter(bytes: Buffer): number {
  const index = bytes.findIndex(byte => (byte & 0xc0) !== 0x80)
  return index < 0 ? bytes.length : index
}
