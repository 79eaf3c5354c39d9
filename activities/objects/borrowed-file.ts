import type { FileHandle } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB, MiB } from '../../lib/bytes.ts'
import type { BorrowedBody } from './port.ts'

/** A read wakes another thread, which costs as much as reading about 100 KiB. */
const pieceBytes = MiB
/** Above 32 open files, further ones use smaller pieces, so that 1000 slow readers hold less than 200 MB. */
const manyOpen = 32
const smallPieceBytes = 64 * KiB
let open = 0

/** Bytes `from` to `to` of a file, inclusive, read one piece ahead into two alternating buffers. Closes the file at the end, on a break, or when destroyed. */
export class BorrowedFile implements BorrowedBody {
  readonly #file: FileHandle
  readonly #to: number
  readonly #signal: AbortSignal | undefined
  readonly #buffers: Buffer[] = []
  readonly #pieceBytes = ++open > manyOpen ? smallPieceBytes : pieceBytes
  #closing: Promise<void> | undefined
  #at: number

  constructor(file: FileHandle, from: number, to: number, signal?: AbortSignal) {
    this.#file = file
    this.#at = from
    this.#to = to
    this.#signal = signal
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    try {
      for (let ahead = this.#readAhead(); ahead; ) {
        const piece = await ahead
        if (this.#signal?.aborted) throw readAborted(this.#signal.reason)
        ahead = this.#readAhead()
        yield piece
      }
    } finally {
      await this.destroy()
    }
  }

  /** Waits for a running read. */
  destroy(): Promise<void> {
    this.#closing ??= this.#file.close().finally(() => open--)
    return this.#closing
  }

  #readAhead(): Promise<Buffer> | null {
    const length = Math.min(this.#pieceBytes, this.#to - this.#at + 1)
    if (length <= 0) return null
    const read = this.#read(this.#at, length)
    this.#at += length
    read.catch(ignoreError('reported when it is awaited'))
    return read
  }

  async #read(from: number, length: number): Promise<Buffer> {
    const buffer = this.#buffers.length < 2 ? Buffer.allocUnsafeSlow(length) : this.#buffers.shift()!
    this.#buffers.push(buffer)
    for (let at = 0; at < length; ) {
      const { bytesRead } = await this.#file.read(buffer, at, length - at, from + at)
      if (bytesRead === 0) throw new Error(`A stored body ended before its byte ${from + at}.`)
      at += bytesRead
    }
    return buffer.subarray(0, length)
  }
}

function readAborted(cause: unknown): Error {
  return Object.assign(new Error('The read was aborted.', { cause }), { name: 'AbortError' })
}
