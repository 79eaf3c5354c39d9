import { createHash, type Hash } from 'node:crypto'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Signatures } from '../../../policy/s3/s3-signatures.ts'
import { type Signer, sameSignature, sha256Hex, signature } from './signing.ts'

/** How the chunks of a body are signed. */
export interface ChunkTerms {
  /** Bytes of the body without its frames, as `x-amz-decoded-content-length` states. */
  length: number
  /** Null = chunks have no signatures. `seed` is the signature of the request. */
  signed: { signer: Signer; seed: string } | null
  /** Names that `x-amz-trailer` announces, in lower case; empty = the body ends without trailers. */
  trailers: readonly string[]
}

const { chunkHeadBytes: maxHeadBytes, trailerBytes: maxTrailerBytes, freeChunks, minChunkBytes } = s3Signatures
const emptyHash = sha256Hex('')

/**
 * Takes a body in the frames of `aws-chunked` apart, piece by piece: `push` returns the bytes that it contains. Chunks have any size, so
 * bytes are returned before the signature of their chunk came; the body counts only once `end` has returned its trailers.
 */
export class ChunkedBody {
  readonly #terms: ChunkTerms
  /** Of the line that is being read. */
  #line = ''
  #state: 'head' | 'data' | 'data end' | 'trailer' | 'over' = 'head'
  /** Bytes that the current chunk still has. */
  #left = 0
  #received = 0
  #chunks = 0
  #hash: Hash | null = null
  #chunkSignature = ''
  #previous: string
  #trailerBytes = 0
  readonly #trailers = new Map<string, string>()

  constructor(terms: ChunkTerms) {
    this.#terms = terms
    this.#previous = terms.signed?.seed ?? ''
  }

  /** The bytes of the body in the next piece of what arrives. Throws an S3Error at the first byte that is not allowed. */
  push(piece: Buffer): Buffer[] {
    const bytes: Buffer[] = []
    for (let at = 0; at < piece.length; ) {
      if (this.#state === 'data') {
        const part = piece.subarray(at, at + this.#left)
        at += part.length
        this.#left -= part.length
        this.#hash?.update(part)
        bytes.push(part)
        if (this.#left === 0) this.#state = 'data end'
      } else at = this.#readLine(piece, at)
    }
    return bytes
  }

  /** The trailers by name, once the whole body has arrived; an S3Error when it is incomplete. */
  end(): ReadonlyMap<string, string> {
    if (this.#state !== 'over' || this.#received !== this.#terms.length) throw new S3Error('IncompleteBody')
    return this.#trailers
  }

  /** Reads up to the end of a line; returns where the next one begins. */
  #readLine(piece: Buffer, from: number): number {
    if (this.#state === 'over') throw wrong('There are bytes after the last chunk.')
    const end = piece.indexOf(0x0a, from)
    const to = end === -1 ? piece.length : end
    const max = this.#state === 'trailer' ? maxTrailerBytes : maxHeadBytes
    if (this.#line.length + to - from > max) throw wrong(`A line between chunks exceeds ${max} bytes.`)
    this.#line += piece.toString('latin1', from, to)
    if (end === -1) return to
    if (!this.#line.endsWith('\r')) throw wrong('A line between chunks must end with CR and LF.')
    const line = this.#line.slice(0, -1)
    this.#line = ''
    this.#take(line)
    return end + 1
  }

  #take(line: string): void {
    if (this.#state === 'head') this.#begin(line)
    else if (this.#state === 'data end') {
      if (line !== '') throw wrong('A chunk is longer than its size.')
      this.#verifyChunk()
      this.#state = 'head'
    } else this.#takeTrailer(line)
  }

  #begin(line: string): void {
    const { length, signed } = this.#terms
    const [, hex, own] = /^([0-9a-f]{1,12})(?:;chunk-signature=([0-9a-f]{64}))?$/i.exec(line) ?? []
    if (hex === undefined || (signed !== null) !== (own !== undefined))
      throw wrong(signed ? 'A chunk must begin with its size and its signature.' : 'A chunk must begin with its size.')
    this.#left = Number.parseInt(hex, 16)
    this.#received += this.#left
    if (this.#received > length) throw new S3Error('IncompleteBody')
    if (++this.#chunks > freeChunks && this.#received < this.#chunks * minChunkBytes)
      throw wrong(`The chunks are too small: after ${freeChunks} they must have ${minChunkBytes} bytes on average.`)
    this.#chunkSignature = own ?? ''
    this.#hash = signed && createHash('sha256')
    if (this.#left > 0) this.#state = 'data'
    else {
      this.#verifyChunk()
      this.#state = 'trailer'
    }
  }

  #verifyChunk(): void {
    const { signed } = this.#terms
    if (!signed || !this.#hash) return
    const lines = [this.#previous, emptyHash, this.#hash.digest('hex')]
    this.#verify(signed.signer, 'AWS4-HMAC-SHA256-PAYLOAD', lines, this.#chunkSignature)
  }

  #verify(signer: Signer, algorithm: string, lines: readonly string[], given: string): void {
    if (!sameSignature(signature(signer, algorithm, lines), given))
      throw new S3Error('SignatureDoesNotMatch', 'The signature of a chunk does not match its bytes.')
    this.#previous = given
  }

  #takeTrailer(line: string): void {
    if (line === '') {
      this.#finish()
      return
    }
    this.#trailerBytes += line.length
    if (this.#trailerBytes > maxTrailerBytes) throw wrong(`The trailers exceed ${maxTrailerBytes} bytes.`)
    const at = line.indexOf(':')
    const name = line.slice(0, at).trim().toLowerCase()
    const isExpected = name === trailerSignature ? this.#terms.signed !== null : this.#terms.trailers.includes(name)
    if (at === -1 || !isExpected || this.#trailers.has(name))
      throw wrong(`The trailer ${name} was not announced, or comes twice.`)
    this.#trailers.set(name, line.slice(at + 1).trim())
  }

  #finish(): void {
    const { signed, trailers } = this.#terms
    for (const name of trailers) if (!this.#trailers.has(name)) throw wrong(`The trailer ${name} is missing.`)
    const given = this.#trailers.get(trailerSignature)
    this.#trailers.delete(trailerSignature)
    if (signed && trailers.length > 0) {
      const text = [...this.#trailers].map(([name, value]) => `${name}:${value}\n`).join('')
      this.#verify(signed.signer, 'AWS4-HMAC-SHA256-TRAILER', [this.#previous, sha256Hex(text)], given ?? '')
    }
    this.#state = 'over'
  }
}

const trailerSignature = 'x-amz-trailer-signature'

const wrong = (message: string): S3Error => new S3Error('InvalidRequest', message)
