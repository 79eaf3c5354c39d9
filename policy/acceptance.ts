/**
 * Requests whose commit is answered late or never (docs/decisions/commits-in-doubt.md). Times in milliseconds unless the name says
 * otherwise.
 */
export const acceptance = {
  /** How long Postgres is queried for a commit whose answer was lost; then the request is refused. */
  lookMs: 2000,
  /** How long an answer waits for the confirming statement. */
  confirmMs: 3000,
  /** Timeout of one attempt; the next one uses another connection. */
  tryMs: 1000,
  /** Pause between attempts. */
  againMs: 50,
  /** After a 503 the process undoes what may have been stored, at each of these times. */
  undoAfterMs: [0, 2000, 10_000],
  /** Unconfirmed operations are undone after this, by the clock of Postgres. */
  forgottenSeconds: 600,
  push: {
    /** Max time of an answer after the body has arrived: providers hang up after 10 s. */
    answerMs: 5000,
    /** Deadline of the commit, so that its answer still arrives in time. */
    commitMs: 4000,
    /** A push whose statement has not begun by then is refused: one that has begun can still be answered. */
    beginMs: 3000,
    /** Longest wait of pushes that are stored or confirmed together for the rows of their applications. */
    togetherLockMs: 500,
    /** Longest wait for the row of one application, which a stuck transaction may hold. */
    lockMs: 2000,
    /** Deadline of the confirmation; it leaves time to check whether another attempt got through. */
    confirmMs: 4700,
    /** Longest wait of one attempt to confirm for the application's row: one that is given up (`tryMs`) occupies no connection. */
    confirmLockMs: 900,
  },
} as const
