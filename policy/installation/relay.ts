/** When the relay heals the lane of an application. */
export const relay = {
  /** An operation may wait this long for the wake-up of the process that wrote it. */
  queuedSeconds: 1,
  runningSeconds: 5,
  /** How long until a target is looked at again that still waits, at first and at most. */
  backoff: { firstSeconds: 2, maxSeconds: 16 },
  /** Something that waits this long may have a lane that is stuck. */
  stuckSeconds: 30,
  /** A lane whose workflow task failed this often in a row is begun anew: the service tries again for hours, with growing delays. */
  stuckTasks: 3,
}
