import { MiB } from '../../lib/bytes.ts'

/**
 * How fast running programs may print. The engine stores every line and spends shared CPU time on it, so a line has a cost in addition to
 * its bytes. A program that prints faster blocks, as on a slow terminal.
 */
export const outputPace = {
  /** Of one application. */
  bytesPerSecond: MiB,
  /** Of all applications of one account on a host, which share it equally. */
  accountBytesPerSecond: 2 * MiB,
  /** What a program may print in a burst after silence. */
  burstBytes: 4 * MiB,
  /** Cost of a line in addition to its bytes. */
  lineBytes: 100,
}

export type OutputPaceTerms = typeof outputPace

/** Bytes per second of each application, when one account runs this many. */
export function outputRate(applications: number, pace: OutputPaceTerms = outputPace): number {
  return Math.min(pace.bytesPerSecond, pace.accountBytesPerSecond / Math.max(1, applications))
}

/** The cost of a piece of output, in bytes. */
export function outputCost(piece: Uint8Array, pace: OutputPaceTerms = outputPace): number {
  let lines = 0
  for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++
  return piece.length + lines * pace.lineBytes
}
