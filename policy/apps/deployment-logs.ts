const kb = 1024
const mb = 1024 * kb

/** What the log of one deployment takes, over all attempts of its steps. */
export const deploymentLogs = {
  /** Output is written at most this often. */
  flushMs: 500,
  /** Output is written in pieces of about this size; about two of them are held while the database is slow. */
  pieceBytes: 64 * kb,
  /** Of output this much is kept ... */
  outputBytes: 4 * mb,
  /** ... and this much of everything: why a step failed, and its last lines, always find room. */
  wholeBytes: 4 * mb + 256 * kb,
  /** A whole log is sent in pieces of this size; a reader that takes nothing holds one. */
  sentBytes: 256 * kb,
  /** Kept of the end of what an install step prints, in characters. */
  lastCharacters: 2000,
  /** A step that prints faster is read more slowly, and waits: reading it takes time from everybody on its host. */
  bytesPerSecond: 2 * mb,
} as const
