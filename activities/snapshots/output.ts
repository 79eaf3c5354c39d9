import { once } from 'node:events'
import type { Socket } from 'node:net'
import { KiB } from '../../lib/bytes.ts'

const gatheredBytes = 256 * KiB

/** The archive's way out: small pieces go together, large ones at once, all of them at the reader's pace. */
export class ArchiveOutput {
  /** Bytes written so far, which is where the next one lies in the archive. */
  position = 0
  readonly #pipe: Socket
  #gathered = Buffer.allocUnsafe(gatheredBytes)
  #length = 0

  constructor(pipe: Socket) {
    this.#pipe = pipe.on('error', () => {}) // told to the writer
  }

  /** The piece may be changed once this resolves. */
  async write(piece: Buffer): Promise<void> {
    this.position += piece.length
    if (this.#length + piece.length > gatheredBytes) await this.flush()
    if (piece.length > gatheredBytes) await this.#send(piece)
    else this.#length += piece.copy(this.#gathered, this.#length)
  }

  async flush(): Promise<void> {
    if (this.#length === 0) return
    const piece = this.#gathered.subarray(0, this.#length)
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
