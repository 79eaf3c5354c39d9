import type { FileHandle } from 'node:fs/promises'
import type { Readable } from 'node:stream'

/** Size and hashes computed during a put. `md5` and `sha256` are hex, `crc32` is a number, `size` is bytes. `md5` may be empty if it is not needed. */
export interface StoredBody {
  size: number
  md5: string
  sha256: string
  crc32: number
}

export interface PutOptions {
  /** Declared length in bytes; a body of another length is refused and leaves nothing. */
  length?: number
  /** Max bytes; a larger body is refused with `BodyTooLarge`. */
  maxBytes?: number
  signal?: AbortSignal
  /** Id of the account whose body it is: accounts take turns with the disk. Without it the body takes turns by itself. */
  ownerId?: string
  /** Its MD5 is not needed, which takes three times as long as SHA-256: a backend that does not either leaves it out. */
  withoutMd5?: true
}

/** Borrowed bytes: a piece is valid until the next one is requested. A reader that stops early must destroy them. A `Readable` qualifies too. */
export interface BorrowedBody extends AsyncIterable<Buffer> {
  destroy(): unknown
}

/** The operations of every backend of immutable bodies, and a local file for readers that seek. Ids are opaque hex. */
export interface ObjectStore {
  /** Durable on return; rejects short, long or torn bodies and leaves nothing behind. */
  put(id: string, body: Readable, options?: PutOptions): Promise<StoredBody>
  /** Bytes `from` to `to`, absolute and inclusive; rejects with `BodyNotFound`. */
  get(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<Readable>
  /** Like `get`, but copies less in memory; the caller must be done with each piece before requesting the next. */
  lend(id: string, from?: number, to?: number, signal?: AbortSignal): Promise<BorrowedBody>
  /** Reads `length` bytes at an offset into one buffer, fewer at the end: for small bodies. Rejects with `BodyNotFound`. */
  read(id: string, from: number, length: number): Promise<Buffer>
  head(id: string): Promise<{ size: number } | null>
  /** Absent is success. */
  delete(id: string): Promise<void>
  /** A seekable file with the body; remote backends download it to a temporary file that is already unlinked. The caller closes it. */
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
