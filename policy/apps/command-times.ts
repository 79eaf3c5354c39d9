/** What the steps of a command take at most while its caller waits, in seconds. */
export const commandSeconds = {
  /** A step at the host. */
  step: 55,
  /** Changing its route; the route keeper goes on with what takes longer. */
  route: 8,
  /** Writing down how it ended. */
  outcome: 2,
  /** With less than this left, no step is begun whose success the caller would not hear of. */
  least: 5,
} as const
