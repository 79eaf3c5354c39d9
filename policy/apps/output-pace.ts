import { MiB } from '../../lib/bytes.ts'

/**
 * How fast running programs may print. The engine writes every line down, with processors that all share, so a line has its price
 * beside its bytes, and who prints faster waits, as at a terminal that is slow.
 */
export const outputPace = {
  /** Of one application. */
  bytesPerSecond: MiB,
  /** Of all applications of one account on a host, which share it equally. */
  accountBytesPerSecond: 2 * MiB,
  /** What a program may print at once after it was silent. */
  burstBytes: 4 * MiB,
  /** What a line counts for beside its bytes. */
  lineBytes: 100,
}

export type OutputPaceTerms = typeof outputPace

/** Bytes per second of each of so many running applications of one account. */
export function outputRate(applications: number, pace: OutputPaceTerms = outputPace): number {
  return Math.min(pace.bytesPerSecond, pace.accountBytesPerSecond / Math.max(1, applications))
}

/** What a piece of output counts for, in bytes. */
export function outputCost(piece: Uint8Array, pace: OutputPaceTerms = outputPace): number {
  let lines = 0
  for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++
  return piece.length + lines * pace.lineBytes
}
