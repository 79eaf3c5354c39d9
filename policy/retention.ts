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
    throw new Error(`The setting ${name} is "${env[name]}"; it takes a whole number of days from 1 to 36500.`)
  return value
}
