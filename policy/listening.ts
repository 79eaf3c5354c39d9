/** How a connection that only listens is known to be alive, in milliseconds: silence means nothing was announced, or a dead line. */
export const listening = {
  /** It is asked something this often. */
  pingEveryMs: 10_000,
  /** No answer within this is a dead line. */
  answerWithinMs: 2000,
  /** After a lost connection the next try comes after this. */
  retryMs: 500,
} as const
