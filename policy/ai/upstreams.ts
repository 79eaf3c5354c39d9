import { KiB, MiB } from '../../lib/bytes.ts'

/** How long one upstream may take, in milliseconds. The whole call is bounded by its caller's signal. */
export const upstreamTimes = {
  connectMs: 2000,
  /** From the request to the first piece of an answer; later than that, the next upstream is tried. */
  firstPieceMs: 30_000,
  /** Between two chunks of an answer that has begun. */
  silenceMs: 20_000,
  /** For the usage that follows a finished answer; without it the answer counts as complete. */
  afterFinishMs: 2000,
} as const

/** As `upstreamTimes`; tests use shorter ones. */
export type UpstreamTimes = Readonly<Record<keyof typeof upstreamTimes, number>>

/** An upstream that fails this often in a row is skipped for `pauseMs`, and then gets one request as a trial. */
export const upstreamBreaker = { failures: 3, pauseMs: 10_000 } as const

/** Waiting for a slot at an upstream. */
export const upstreamSlots = {
  waitMs: 5000,
  /** Calls of one account that may wait in one process; further ones fail without waiting. */
  waitingPerAccount: 32,
} as const

/** Sizes of answers, in bytes. */
export const answerCaps = {
  /** What callers get: text, and calls of tools. */
  answer: MiB,
  /** What an upstream sends for it: in a stream each token has an envelope of some hundred bytes. */
  stream: 64 * MiB,
  /** The same in one piece, in which a character may be an escape of 6 bytes. */
  json: 8 * MiB,
  /** Bytes per requested token, and in addition, of an answer: an upstream that sends more ignores the requested length. */
  perToken: 64,
  floor: 16 * KiB,
} as const

/** Figures of usage that are believed: up to this many times the estimate, and some tokens that servers add. */
export const figuresBelieved = { times: 20, floor: 20_000 } as const

/** How long the tokens of a prompt may be counted, in milliseconds; the estimate is used then. */
export const tokenizeMs = 1000

/** The share of one process in the concurrent calls at an upstream: rounded down, and at least one. */
export const slotsOfProcess = (concurrency: number, processes: number): number =>
  Math.max(1, Math.floor(concurrency / processes))
