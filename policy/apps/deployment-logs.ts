import { KiB, MiB } from '../../lib/bytes.ts'

/** What the log of one deployment takes, over all attempts of its steps. */
export const deploymentLogs = {
  /** Output is written at most this often. */
  flushMs: 500,
  /** Output is written in pieces of about this size; about two of them are held while the database is slow. */
  pieceBytes: 64 * KiB,
  /** Of output this much is kept ... */
  outputBytes: 4 * MiB,
  /** ... and this much of everything: why a step failed, and its last lines, always find room. */
  wholeBytes: 4 * MiB + 256 * KiB,
  /** A whole log is sent in pieces of this size; a reader that takes nothing holds one. */
  sentBytes: 256 * KiB,
  /** Kept of the end of what an install step prints, in characters. */
  lastCharacters: 2000,
  /** A step that prints faster is read more slowly, and waits: reading it takes time from everybody on its host. */
  bytesPerSecond: 2 * MiB,
} as const
