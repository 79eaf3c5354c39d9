/** Max time of the steps of a command while its caller waits, in seconds. */
export const commandSeconds = {
  /** A step on the host. */
  step: 55,
  /** The change of its route; the route keeper completes one that takes longer. */
  route: 8,
  /** Recording the outcome. */
  outcome: 2,
  /** With less time left than this, no step starts, because the caller would not learn of its success. */
  min: 5,
} as const
