import { s3Region } from '../objects/s3-credentials.ts'

/** Bounds of S3's Signature Version 4 (contract 7.47). */
export const s3Signatures = {
  /** How far the clock of a client may differ, in milliseconds. */
  maxSkewMs: 900_000,
  /** A presigned address is valid for up to 7 days. */
  maxExpiresSeconds: 604_800,
  /** Of the line before a chunk, and of the trailers after the last one. */
  chunkHeadBytes: 1024,
  trailerBytes: 8192,
  /** Chunks that may have any size; past them they must have `minChunkBytes` on average, as each takes as long to read as a kilobyte. */
  freeChunks: 1000,
  minChunkBytes: 512,
}

/** Regions that a signature may name; the first is the one that clients are given. */
export const s3Regions: readonly string[] = [s3Region, 'us-east-1']
