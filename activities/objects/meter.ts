import { createHash } from 'node:crypto'
import { Transform, type TransformCallback } from 'node:stream'
import { crc32 } from 'node:zlib'
import { MiB } from '../../lib/bytes.ts'
import { BodyMismatch, BodyTooLarge, type PutOptions, type StoredBody } from './port.ts'

/** Passes a body through, counting and hashing; fails as soon as it exceeds what was declared. */
export class BodyMeter extends Transform {
  readonly #md5 = createHash('md5')
  readonly #sha256 = createHash('sha256')
  readonly #options: PutOptions
  #crc32 = 0
  #size = 0

  constructor(options: PutOptions) {
    super({ highWaterMark: MiB })
    this.#options = options
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    this.#size += chunk.length
    const excess = this.#excess()
    if (!excess) {
      this.#md5.update(chunk)
      this.#sha256.update(chunk)
      this.#crc32 = crc32(chunk, this.#crc32)
    }
    done(excess, chunk)
  }

  override _flush(done: TransformCallback): void {
    const { length } = this.#options
    if (length !== undefined && this.#size !== length)
      done(new BodyMismatch(`The body ended after ${this.#size} of ${length} bytes.`))
    else done()
  }

  #excess(): Error | null {
    const { length, maxBytes } = this.#options
    if (maxBytes !== undefined && this.#size > maxBytes) return new BodyTooLarge(`The body is over ${maxBytes} bytes.`)
    if (length !== undefined && this.#size > length) return new BodyMismatch(`The body is longer than ${length} bytes.`)
    return null
  }

  /** Size and hashes of what passed; call it once, after the end. */
  result(): StoredBody {
    return { size: this.#size, md5: this.#md5.digest('hex'), sha256: this.#sha256.digest('hex'), crc32: this.#crc32 }
  }
}

/** Limits an inclusive range to the body; null for the whole of an empty body. Throws RangeError beyond the end. */
export function rangeWithin(size: number, from = 0, to?: number): { from: number; to: number } | null {
  if (size === 0 && from === 0 && to === undefined) return null
  if (from < 0 || from >= size || (to !== undefined && to < from)) throw beyond(from, to)
  return { from, to: Math.min(to ?? size - 1, size - 1) }
}

export function beyond(from: number, to: number | undefined): RangeError {
  return new RangeError(`Bytes ${from} to ${to ?? 'the end'} are not within the body.`)
}

/** Ids become paths and keys: anything but an opaque hex id is a bug, never a caller's input. */
export function segmentPath(id: string): string {
  if (!/^[0-9a-f]{8}[0-9a-f-]{0,56}$/.test(id)) throw new Error(`Not a segment id: ${JSON.stringify(id)}`)
  return `o/${id.slice(0, 2)}/${id.slice(2, 4)}/${id}`
}
