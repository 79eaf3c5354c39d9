import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'

/** Bytes that no compression or sparse file makes cheap. */
export const noise = (length: number): Buffer => randomBytes(length)

/** A body in pieces of 64 KiB, as a socket gives it. */
export function bodyOf(bytes: Buffer, pieceBytes = 64 * 1024): Readable {
  return Readable.from(cut(bytes, pieceBytes), { objectMode: false })
}

/** A body that breaks after these bytes, as when a client goes away. */
export function tornBody(bytes: Buffer): Readable {
  return Readable.from(broken(bytes), { objectMode: false })
}

/** A body that gives these bytes and then nothing more, without an end. */
export function stuckBody(bytes: Buffer): Readable {
  const body = new Readable({ read() {} })
  body.push(bytes)
  return body
}

export async function bytesOf(stream: Readable): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

export const hex = (algorithm: 'md5' | 'sha256', bytes: Buffer): string =>
  createHash(algorithm).update(bytes).digest('hex')

function* cut(bytes: Buffer, pieceBytes: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

function* broken(bytes: Buffer): Generator<Buffer> {
  yield* cut(bytes, 64 * 1024)
  throw Object.assign(new Error('aborted'), { code: 'ECONNRESET' })
}
