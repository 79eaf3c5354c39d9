import { type Environment, integer } from './environment.ts'

/** How long the history of applications is kept, in days after its end. What runs, serves or is among the newest is always kept. */
export interface Retention {
  /** Operations, and deployments with their events. */
  historyDays: number
  deploymentLogDays: number
  /** Archives that deployments were uploaded as. */
  archiveDays: number
}

/** So many of an application's newest deployments, with their logs, stay whatever their age. */
export const deploymentsAlwaysKept = 20

/** Rows that one statement deletes at most: it stays far below the statement timeout, and never holds many locks. */
export const rowsAtOnce = 2000

/** How long records of other kinds are kept. */
export const kept = {
  /** Entries of the audit record; operators may look back this far, whatever the plan shows its account. */
  auditDays: 90,
  /** Of what an entry is about: the longest id that an object can have is shorter. */
  auditResourceCharacters: 1100,
  /** Deliveries, whose ids are known again for as long (contract 6.9); of those that deployed nothing so many of each source. */
  deliveryDays: 7,
  refusedDeliveries: 100,
  /** Answers that an `Idempotency-Key` gives again (contract 1.20), and how long a first request may take before it is given up. */
  idempotencyHours: 24,
  idempotencyGivenUpMinutes: 5,
  /** The outcome of a restore (contract 6.23). */
  restoreSeconds: 3600,
  /** Snapshots (contract 6.24); failed ones for operators only. */
  snapshotDays: 30,
  failedSnapshotDays: 1,
  /** The end of a plan is told so long after it when nobody did in time; less than told mails are kept for. */
  planEndDays: 7,
  /** Steps to a lower plan that were taken or refused. */
  downgradeDays: 30,
  /** Chunked uploads that were completed or aborted. */
  uploadDays: 7,
  /** What has ended and is of no use to anybody: sign-ins, sessions, grants, upload tokens, shares. */
  endedDays: 1,
} as const

/** Throws an Error that names the setting and what it takes. */
export function retentionSettings(env: Environment): Retention {
  return {
    historyDays: days(env, 'HISTORY_DAYS', 180),
    deploymentLogDays: days(env, 'DEPLOYMENT_LOG_DAYS', 30),
    archiveDays: days(env, 'ARCHIVE_DAYS', 7),
  }
}

function days(env: Environment, name: string, usual: number): number {
  const value = integer(env, name, usual)
  if (value < 1 || value > 36_500)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number of days from 1 to 36500.`)
  return value
}
