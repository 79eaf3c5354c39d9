import { Transform, type TransformCallback } from 'node:stream'
import { type Checksum, checksum } from '../../../lib/checksums.ts'
import { checksumHeader } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { ChunkedBody } from '../signature/chunked-body.ts'
import type { Payload } from './payload.ts'

/** Passes on the bytes of a body without the frames of its chunks, and calculates the checksum that the client has stated. Fails with an S3Error. */
export class PayloadStream extends Transform {
  readonly #payload: Payload
  readonly #chunked: ChunkedBody | null
  readonly #checksum: Checksum | null
  #received = 0
  /** The verified checksum, base64, once the stream has ended; null when none was stated. */
  value: string | null = null
  /** Why the body was refused. */
  refusal: Error | null = null

  constructor(payload: Payload, highWaterMark: number) {
    super({ highWaterMark })
    this.#payload = payload
    this.#chunked = payload.chunks && new ChunkedBody(payload.chunks)
    this.#checksum = payload.checksum && checksum(payload.checksum.algorithm)
  }

  override _transform(piece: Buffer, _: BufferEncoding, done: TransformCallback): void {
    try {
      // Joined, because a client may send chunks of one byte, each of which would pass through the streams alone.
      const bytes = this.#chunked ? joined(this.#chunked.push(piece)) : piece
      this.#received += bytes.length
      this.#checksum?.update(bytes)
      done(null, bytes)
    } catch (error) {
      this.#refuse(error as Error, done)
    }
  }

  /** Verifies, before the stream ends, that all bytes have arrived and that the checksum is the stated one. */
  override _flush(done: TransformCallback): void {
    try {
      const trailers = this.#chunked?.end()
      const { length, checksum: stated } = this.#payload
      if (length !== null && this.#received !== length) throw new S3Error('IncompleteBody')
      if (stated && this.#checksum) {
        const expected = stated.value ?? trailers?.get(checksumHeader(stated.algorithm))
        const value = this.#checksum.digest().toString('base64')
        if (stated.isStated !== false && value !== expected) throw wrongChecksum(stated.algorithm, value)
        this.value = value
      }
      done()
    } catch (error) {
      this.#refuse(error as Error, done)
    }
  }

  #refuse(error: Error, done: TransformCallback): void {
    this.refusal = error
    done(error)
  }
}

const joined = (pieces: Buffer[]): Buffer => (pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))

const wrongChecksum = (algorithm: string, calculated: string): S3Error =>
  new S3Error('BadDigest', `The ${algorithm} that was sent does not match the received bytes. Nothing was stored.`, {
    CalculatedDigest: calculated,
  })
