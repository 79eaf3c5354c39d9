/** State of an application in its row and in the engine, at the same moment. */
export interface Observation {
  status: 'created' | 'starting' | 'running' | 'restarting' | 'exited' | 'deleting'
  desired: 'running' | 'stopped' | 'deleted'
  hostPort: number | null
  container: { running: boolean; hostPort: number | null } | null
}

export interface Circumstances {
  /** The machine was rebooted since this container started: its exit was not observed. */
  rebooted: boolean
  /** An operation of this application waits or runs, and will update the row. */
  busy: boolean
}

export type Verdict = 'nothing' | 'record-start' | 'record-exit' | 'bring-back' | 'bring-down'

/**
 * What to do about one application. The engine never has a restart policy (decision: an observed exit is final): only containers whose
 * exit was not observed are started again, after a reboot or when the container is missing. A container that runs although it must not
 * was left by a start whose host stopped responding, and which was reported as failed.
 */
export function verdict(
  { status, desired, hostPort, container }: Observation,
  { rebooted, busy }: Circumstances,
): Verdict {
  if (busy || desired === 'deleted') return 'nothing'
  if (container?.running) {
    if (desired === 'stopped') return 'bring-down'
    const isRecorded = status === 'running' && hostPort === container.hostPort && !rebooted
    return isRecorded ? 'nothing' : 'record-start'
  }
  if (status === 'starting') return 'record-exit' // the operation that started it has ended
  if (status !== 'running') return 'nothing'
  if (desired === 'running' && (rebooted || container === null)) return 'bring-back'
  return 'record-exit'
}

/** Delay before another attempt to restart an application, in seconds; it doubles up to an hour. */
export const bringBackDelay = { firstSeconds: 5, maxSeconds: 3600 }

/**
 * When a host tries again at the latest, after `tries` failed attempts, the last one at `last`. A restarted host process begins with the
 * first delay again, so the attempt may come sooner.
 */
export function nextBringBack(tries: number, last: Date): Date {
  const { firstSeconds, maxSeconds } = bringBackDelay
  return new Date(last.getTime() + Math.min(maxSeconds, firstSeconds * 2 ** (tries - 1)) * 1000)
}
