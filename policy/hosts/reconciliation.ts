/** What the row of an application and the engine say about it at the same moment. */
export interface Observation {
  status: 'created' | 'starting' | 'running' | 'restarting' | 'exited' | 'deleting'
  desired: 'running' | 'stopped' | 'deleted'
  hostPort: number | null
  container: { running: boolean; hostPort: number | null } | null
}

export interface Circumstances {
  /** The machine was started anew since this container was: its exit was not seen. */
  rebooted: boolean
  /** An operation of this application waits or runs: it will say what is true. */
  busy: boolean
}

export type Verdict = 'nothing' | 'record-start' | 'record-exit' | 'bring-back' | 'bring-down'

/**
 * What to do about one application. A restart policy is never the engine's (decision: an exit that was seen is final): only
 * containers whose exit nobody saw are started again, after a reboot or when the container itself is gone. What runs although
 * it shall not was left by a start whose host fell silent in the middle, and was told to have failed.
 */
export function verdict(
  { status, desired, hostPort, container }: Observation,
  { rebooted, busy }: Circumstances,
): Verdict {
  if (busy || desired === 'deleted') return 'nothing'
  if (container?.running) {
    if (desired === 'stopped') return 'bring-down'
    const known = status === 'running' && hostPort === container.hostPort && !rebooted
    return known ? 'nothing' : 'record-start'
  }
  if (status === 'starting') return 'record-exit' // what started it is over
  if (status !== 'running') return 'nothing'
  if (desired === 'running' && (rebooted || container === null)) return 'bring-back'
  return 'record-exit'
}

/** An application that cannot be brought back is tried again after a delay that doubles up to an hour, in seconds. */
export const bringBackDelay = { firstSeconds: 5, maxSeconds: 3600 }

/**
 * When a host tries again by itself at the latest, after so many tries in vain of which the last was made at `last`. A host process that
 * was started anew begins with the first delay again, so it may come sooner.
 */
export function nextBringBack(tries: number, last: Date): Date {
  const { firstSeconds, maxSeconds } = bringBackDelay
  return new Date(last.getTime() + Math.min(maxSeconds, firstSeconds * 2 ** (tries - 1)) * 1000)
}
