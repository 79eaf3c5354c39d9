import { maxCrashes, restartRules } from './restarts.ts'

/** State of a database in its row and in the engine of containers, at the same moment. */
export interface DatabaseObservation {
  status: 'created' | 'starting' | 'running' | 'restarting' | 'exited' | 'deleting'
  desired: 'running' | 'stopped' | 'deleted'
  containerId: string | null
  startedAt: Date | null
  /** End of the last run that the row knows. */
  exitAt: Date | null
  /** Crashes in a row. */
  crashes: number
  restartAt: Date | null
  /** `endedAt` of its last run; null also where only a list was read. */
  container: { id: string; running: boolean; paused: boolean; endedAt: Date | null } | null
}

export interface DatabaseCircumstances {
  /** The machine was rebooted since this container started: its exit was not observed. */
  rebooted: boolean
  /** An operation of this database waits or runs, and will update the row. */
  busy: boolean
  now: Date
}

export type DatabaseVerdict =
  | 'nothing'
  | 'resume'
  | 'record-start'
  | 'record-exit'
  | 'forget-crashes'
  | 'await-restart'
  | 'restart'
  | 'bring-back'
  | 'bring-down'

/**
 * What to do about one database. Unlike a program, an engine that ended is started again, after a delay that grows with each crash
 * (restarts.ts), unless it was stopped on purpose. One whose end was not observed is brought back immediately, after a reboot or when its
 * container is missing; so is one that its host could not start, without end: only an engine that ran and ended has crashed.
 */
export function databaseVerdict(
  observation: DatabaseObservation,
  { rebooted, busy, now }: DatabaseCircumstances,
): DatabaseVerdict {
  const { status, desired, container, containerId } = observation
  if (busy || desired === 'deleted') return 'nothing'
  if (container?.running) {
    if (desired === 'stopped') return 'bring-down'
    if (container.paused) return 'resume'
    const isRecorded = status === 'running' && containerId === container.id && !rebooted
    if (!isRecorded) return 'record-start'
    return hasRecovered(observation, now) ? 'forget-crashes' : 'nothing'
  }
  // The operation that started or restarted it has ended.
  if (status === 'starting' || status === 'restarting') return 'record-exit'
  if (status === 'running') return desired === 'running' && (rebooted || !container) ? 'bring-back' : 'record-exit'
  return status === 'exited' && desired === 'running' ? afterExit(observation, now) : 'nothing'
}

function afterExit(observation: DatabaseObservation, now: Date): DatabaseVerdict {
  const { crashes, restartAt } = observation
  if (restartAt) return restartAt <= now ? 'restart' : 'await-restart'
  if (crashes >= maxCrashes) return 'nothing'
  // No restart is due, so the one before has failed, or an operation left it like this.
  return hasEndedSince(observation) ? 'record-exit' : 'bring-back'
}

/** Whether its container has ended a run that the row does not know. */
export function hasEndedSince({ container, exitAt }: Pick<DatabaseObservation, 'container' | 'exitAt'>): boolean {
  const { running = false, endedAt = null } = container ?? {}
  return !running && endedAt !== null && (exitAt === null || endedAt > exitAt)
}

/** It ran for long; or it had stayed down, and somebody has started it. */
function hasRecovered({ crashes, startedAt }: DatabaseObservation, now: Date): boolean {
  if (crashes === 0) return false
  return (
    crashes >= maxCrashes || (!!startedAt && now.getTime() - startedAt.getTime() >= restartRules.steadySeconds * 1000)
  )
}
