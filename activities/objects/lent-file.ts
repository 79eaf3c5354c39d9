import type { FileHandle } from 'node:fs/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { KiB, MiB } from '../../lib/bytes.ts'
import type { Lent } from './port.ts'

/** A read wakes another thread, which costs as much as some 100 KiB do. */
const pieceBytes = MiB
/** Of files beyond so many that are open at once: a thousand slow readers must not hold gigabytes. */
const manyOpen = 32
const smallPieceBytes = 64 * KiB
let open = 0

/** Bytes of a file, inclusive, read one piece ahead into two buffers by turns. Closes the file when it is read, broken off or destroyed. */
export class LentFile implements Lent {
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
        if (this.#signal?.aborted) throw calledOff(this.#signal.reason)
        ahead = this.#readAhead()
        yield piece
      }
    } finally {
      await this.destroy()
    }
  }

  /** Waits for a read that is under way. */
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

function calledOff(cause: unknown): Error {
  return Object.assign(new Error('The reading was called off.', { cause }), { name: 'AbortError' })
}
