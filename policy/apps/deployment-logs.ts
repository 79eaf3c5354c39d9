import { KiB, MiB } from '../../lib/bytes.ts'

/** Limits of the log of one deployment, over all attempts of its steps. */
export const deploymentLogs = {
  /** Min interval between writes of output. */
  flushMs: 500,
  /** Approximate size of the pieces in which output is written; up to two are buffered while the database is slow. */
  pieceBytes: 64 * KiB,
  /** Max output that is stored ... */
  outputBytes: 4 * MiB,
  /** ... and max size of the whole log: the reason of a failed step, and its last lines, always have room. */
  wholeBytes: 4 * MiB + 256 * KiB,
  /** A whole log is sent in pieces of this size; a stalled reader holds one in memory. */
  sentBytes: 256 * KiB,
  /** Retained from the end of an install step's output, in characters. */
  lastCharacters: 2000,
  /** A step that prints faster has to wait: reading its output takes time from all others on the host. */
  bytesPerSecond: 2 * MiB,
} as const
