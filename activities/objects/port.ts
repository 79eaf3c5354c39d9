import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'

/** What a put learned about the bytes on their way. `md5` and `sha256` are hex, `crc32` is a number, `size` is bytes. */
export interface StoredBody {
  size: number
  md5: string
  sha256: string
  crc32: number
}

export interface PutOptions {
  /** Declared length in bytes; a body of another length is refused and leaves nothing. */
  length?: number
  /** Bytes after which the body is refused with `BodyTooLarge`. */
  maxBytes?: number
  signal?: AbortSignal
}

/** Bytes on loan: a piece is good until the next one is asked for. Who does not read them all destroys them. A `Readable` is one too. */
export interface Lent extends AsyncIterable<Buffer> {
  destroy(): unknown
}

/** The few verbs every backend of immutable bodies has, and a local view for readers that seek. Ids are opaque hex. */
export interface ObjectStore {
  /** Durable on return; rejects short, long or torn bodies and leaves nothing behind. */
  put(id: string, body: Readable, options?: PutOptions): Promise<StoredBody>
  /** Bytes `from` to `to`, absolute and inclusive; rejects with `BodyNotFound`. */
  get(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<Readable>
  /** As `get`, with fewer bytes moved in memory, for who is done with each piece before the next. */
  lend(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<Lent>
  /** So many bytes from a byte on, in one piece: for small bodies. Fewer where the body ends; rejects with `BodyNotFound`. */
  read(id: string, from: number, length: number): Promise<Buffer>
  head(id: string): Promise<{ size: number } | null>
  /** Absent is success. */
  delete(id: string): Promise<void>
  /** A seekable file of the body; remote backends bring it to a temporary file that is unlinked at once. The caller closes it. */
  open(id: string): Promise<FileHandle>
}

export class BodyTooLarge extends Error {
  override name = 'BodyTooLarge'
}

export class BodyMismatch extends Error {
  override name = 'BodyMismatch'
}

export class BodyNotFound extends Error {
  override name = 'BodyNotFound'
}
