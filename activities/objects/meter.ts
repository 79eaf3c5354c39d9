import { Readable, Transform, type TransformCallback } from 'node:stream'
import { crc32 } from 'node:zlib'
import { KiB, MiB } from '../../lib/bytes.ts'
import { BodyHash } from './body-hash.ts'
import { BodyMismatch, BodyTooLarge, type PutOptions, type StoredBody } from './port.ts'

/** Passes a body through, counting and hashing; fails as soon as it exceeds what was declared. */
export class BodyMeter extends Transform {
  readonly #hash: BodyHash
  readonly #options: PutOptions
  #crc32 = 0
  #size = 0
  #hashes: Pick<StoredBody, 'md5' | 'sha256'> | undefined

  constructor(options: PutOptions) {
    super({ highWaterMark: 512 * KiB })
    this.#options = options
    this.#hash = new BodyHash({ md5: !options.withoutMd5 })
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    this.#take(chunk).then(() => done(null, chunk), done)
  }

  override _flush(done: TransformCallback): void {
    this.#end().then(() => done(), done)
  }

  async #take(chunk: Buffer): Promise<void> {
    this.#size += chunk.length
    const { length, maxBytes } = this.#options
    if (maxBytes !== undefined && this.#size > maxBytes) throw new BodyTooLarge(`The body is over ${maxBytes} bytes.`)
    if (length !== undefined && this.#size > length) throw new BodyMismatch(`The body is longer than ${length} bytes.`)
    const room = this.#hash.add(chunk)
    this.#crc32 = crc32(chunk, this.#crc32)
    await room
  }

  async #end(): Promise<void> {
    const { length } = this.#options
    if (length !== undefined && this.#size !== length)
      throw new BodyMismatch(`The body ended after ${this.#size} of ${length} bytes.`)
    this.#hashes = await this.#hash.digest()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#hash.drop()
    done(error)
  }

  /** Size and hashes of what passed, after its end. */
  result(): StoredBody {
    return { size: this.#size, ...this.#hashes!, crc32: this.#crc32 }
  }
}

/**
 * The first `length` bytes of a stream; fails when it ends before. The source is destroyed when the reader has finished or stopped,
 * so that the rest is not read when an endpoint sends more than was requested.
 */
export function exactly(source: Readable, length: number): Readable {
  return Readable.from(pieces(source, length), { objectMode: false, highWaterMark: MiB })
}

async function* pieces(source: Readable, length: number): AsyncGenerator<Buffer> {
  let left = length
  try {
    if (left > 0)
      for await (const piece of source as AsyncIterable<Buffer>) {
        yield piece.length > left ? piece.subarray(0, left) : piece
        left -= Math.min(left, piece.length)
        if (left === 0) return
      }
    if (left > 0) throw new Error(`The object store sent ${length - left} of ${length} bytes.`)
  } finally {
    source.destroy()
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
