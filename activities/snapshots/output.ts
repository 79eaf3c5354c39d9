import { once } from 'node:events'
import type { Socket } from 'node:net'
import { KiB } from '../../lib/bytes.ts'

const bufferBytes = 256 * KiB

/** Writes the archive at the reader's pace: small pieces are batched, large ones are sent directly. */
export class ArchiveOutput {
  /** Bytes written so far: the offset of the next piece in the archive. */
  position = 0
  readonly #pipe: Socket
  #buffer = Buffer.allocUnsafe(bufferBytes)
  #length = 0

  constructor(pipe: Socket) {
    this.#pipe = pipe.on('error', () => {}) // reported to the writer
  }

  /** The piece may be changed once this resolves. */
  async write(piece: Buffer): Promise<void> {
    this.position += piece.length
    if (this.#length + piece.length > bufferBytes) await this.flush()
    if (piece.length > bufferBytes) await this.#send(piece)
    else this.#length += piece.copy(this.#buffer, this.#length)
  }

  async flush(): Promise<void> {
    if (this.#length === 0) return
    const piece = this.#buffer.subarray(0, this.#length)
    this.#length = 0
    await this.#send(piece)
  }

  /** Resolves when the reader has everything. */
  async end(): Promise<void> {
    await this.flush()
    this.#pipe.end()
    await once(this.#pipe, 'finish')
  }

  #send(piece: Buffer): Promise<void> {
    return new Promise((sent, failed) => this.#pipe.write(piece, error => (error ? failed(error) : sent())))
  }
}
