import { Readable } from 'node:stream'
import { MiB } from '../../lib/bytes.ts'

/**
 * The first `length` bytes of a stream; an error when it ends before. The source is destroyed when the reader is done or gone,
 * so that an endpoint that sends more than it was asked for is not read to its end.
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
    if (left > 0) throw new Error(`The object store gave ${length - left} of ${length} bytes.`)
  } finally {
    source.destroy()
  }
}
