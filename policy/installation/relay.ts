/** When the relay wakes or restarts the lane of an application. */
export const relay = {
  /** How long an operation may wait for the wake-up of the process that stored it. */
  queuedSeconds: 1,
  runningSeconds: 5,
  /** Delay before a target that still waits is checked again, at first and at most. */
  backoff: { firstSeconds: 2, maxSeconds: 16 },
  /** After this long the lane of a waiting target may be stuck. */
  stuckSeconds: 30,
  /** A lane whose workflow task failed this often in a row is restarted: Temporal itself would retry for hours, with growing delays. */
  stuckTasks: 3,
}
