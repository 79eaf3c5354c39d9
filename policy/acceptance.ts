/**
 * What becomes of a wish whose commit is not answered, or late (docs/decisions/commits-in-doubt.md). Times in milliseconds unless they
 * say otherwise.
 */
export const acceptance = {
  /** So long Postgres is asked whether a commit whose answer was lost has arrived; then the wish is refused. */
  lookMs: 2000,
  /** So long an answer waits for the second statement. */
  confirmMs: 3000,
  /** One try takes at most this: the next one has another connection. */
  tryMs: 1000,
  /** Pause between two tries. */
  againMs: 50,
  /** Whoever has answered 503 undoes what may have arrived after so long, each. */
  undoAfterMs: [0, 2000, 10_000],
  /** What nobody confirmed is undone after this, by the clock of Postgres. */
  forgottenSeconds: 600,
  push: {
    /** Providers hang up after 10 s; beside the time that the body took to arrive, an answer takes at most this. */
    answerMs: 5000,
    /** The last moment for a commit, so that its answer still arrives in time. */
    commitMs: 4000,
    /** The last moment to hear that it is confirmed; there is time left to ask whether another attempt got through. */
    confirmMs: 4700,
  },
} as const
