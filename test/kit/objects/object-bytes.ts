import { createHash } from 'node:crypto'

/** Storage of an account, so little that it is full now and then: bytes. */
export const storageLimit = 16_384

/** Sizes differ, so that a sum says what is in it. */
export const sizeOf = (segment: string): number => 1 + (Number.parseInt(segment.slice(0, 6), 16) % 9999)
export const bytesOf = (segment: string): Buffer => Buffer.alloc(sizeOf(segment), segment)

const md5 = (bytes: Buffer): Buffer => createHash('md5').update(bytes).digest()

/** The ETag of a part. */
export const partTag = (segment: string): string => md5(bytesOf(segment)).toString('hex')

/** The ETag of an object in parts, as S3 has it. */
export const etagOf = (segments: readonly string[]): string =>
  `${md5(Buffer.concat(segments.map(segment => md5(bytesOf(segment))))).toString('hex')}-${segments.length}`
