/** Pings of a connection that only listens, in milliseconds: silence can mean that nothing was announced, or that it is dead. */
export const listening = {
  /** Interval of pings. */
  pingEveryMs: 10_000,
  /** A connection without an answer within this is dead. */
  answerWithinMs: 2000,
  /** Delay before a lost connection is opened again. */
  retryMs: 500,
} as const
