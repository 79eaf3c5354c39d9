import { type Environment, integer } from './environment.ts'

/**
 * Retention of the history of applications, in days after its end: what runs, serves or is among the newest is always retained. And how far
 * back databases can be restored.
 */
export interface Retention {
  /** Operations, and deployments with their events. */
  historyDays: number
  deploymentLogDays: number
  /** Uploaded archives of deployments. */
  archiveDays: number
  /** Postgres databases can be restored to any second of this many days; 0 = from snapshots only. */
  pointInTimeDays: number
}

/** Number of an application's newest deployments that stay with their logs, regardless of age. */
export const alwaysRetainedDeployments = 20

/** Max rows that one statement deletes: it stays far below the statement timeout, and never holds many locks. */
export const rowsAtOnce = 2000

/** Retention of other records. */
export const retentionTimes = {
  /** Entries of the audit record; operators see all of it, accounts as many days as their plan includes. */
  auditDays: 90,
  /**
   * Entries of an account about commands on its objects, of which it may add over a million a day, and about each other command, which is
   * 222 a day; the oldest are deleted first.
   */
  auditedCommands: { objects: 100_000, command: 20_000 },
  /** Max length of an entry's resource: the longest possible object id is shorter. */
  auditResourceCharacters: 1100,
  /** Deliveries; repeated ids are recognized for as long (contract 6.9). Of those that deployed nothing, a number per source and application. */
  deliveryDays: 7,
  refusedDeliveries: 100,
  /** Answers for an `Idempotency-Key` (contract 1.20), and how long a first request may run before its key is free again. */
  idempotencyHours: 24,
  idempotencyGivenUpMinutes: 5,
  /** The outcome of a restore (contract 6.23). */
  restoreSeconds: 3600,
  /** Snapshots (contract 6.24); failed ones for operators only. */
  snapshotDays: 30,
  failedSnapshotDays: 1,
  /** The volume of a database that a restore has replaced (`berth databases undo`). */
  replacedVolumeSeconds: 86_400,
  /** How late the end of a plan is still mailed, after an outage; shorter than the retention of sent mails. */
  planEndDays: 7,
  /** Steps to a lower plan that were applied or refused. */
  downgradeDays: 30,
  /** Chunked uploads that were completed or aborted. */
  uploadDays: 7,
  /** Ended sign-ins, sessions, grants, upload tokens and shares. */
  endedDays: 1,
  /** Keys that were revoked or have expired. */
  endedKeyDays: 90,
} as const

/** Throws an Error that names the setting and what it accepts. */
export function retentionSettings(env: Environment): Retention {
  return {
    historyDays: days(env, 'HISTORY_DAYS', 180),
    deploymentLogDays: days(env, 'DEPLOYMENT_LOG_DAYS', 30),
    archiveDays: days(env, 'ARCHIVE_DAYS', 7),
    pointInTimeDays: pointInTimeDaysOf(env),
  }
}

function days(env: Environment, name: string, fallback: number): number {
  const value = integer(env, name, fallback)
  if (value < 1 || value > 36_500)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number of days from 1 to 36500.`)
  return value
}

/** What is stored for it grows with each day. */
const maxPointInTimeDays = 90

function pointInTimeDaysOf(env: Environment): number {
  const value = integer(env, 'POINT_IN_TIME_DAYS', 7)
  if (value < 0 || value > maxPointInTimeDays)
    throw new Error(
      `The setting POINT_IN_TIME_DAYS is "${env.POINT_IN_TIME_DAYS}"; it must be a whole number of days from 0 (off) to ${maxPointInTimeDays}.`,
    )
  return value
}
