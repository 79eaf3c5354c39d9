import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow'
import type { ContainerExit } from '../activities/releases/release.ts'
import { claimLost, placeLost } from '../policy/apps/claims.ts'
import { endWaits } from '../policy/databases/database-steps.ts'

/** The failure of a step as a catalogue code. A timeout of a host's queue means that the host does not answer. */
export function failureOf(error: unknown): { code: string; message: string } {
  if (isCancellation(error))
    return { code: 'DEPLOY_CANCELLED', message: 'Cancelled, because the application or database is being deleted.' }
  const cause = causeOf(error)
  if (cause instanceof ApplicationFailure) return { code: catalogueCode(cause.type), message: cause.message }
  if (cause instanceof TimeoutFailure) {
    const where = error instanceof ActivityFailure ? ` while it was asked to ${asWords(error.activityType)}` : ''
    return { code: 'ACTION_FAILED', message: `The container host did not answer in time${where}.` }
  }
  return { code: 'ACTION_FAILED', message: error instanceof Error ? error.message : String(error) }
}

/** How the container of a step had ended before the step failed or took too long; null when neither says anything about that. */
export function exitBefore(error: unknown): ContainerExit | null {
  const cause = causeOf(error)
  const [exit] =
    cause instanceof TimeoutFailure
      ? [cause.lastHeartbeatDetails]
      : (cause instanceof ApplicationFailure && cause.details) || []
  return (exit as ContainerExit | undefined) ?? null
}

/** Whether a step was refused because another run of this lane has taken over its operation, or because it has ended. */
export const isClaimLost = (error: unknown): boolean => isOfType(error, claimLost)

/** Whether a snapshot was ended because another one holds its host's slot. */
export const isPlaceLost = (error: unknown): boolean => isOfType(error, placeLost)

/** Whether a start of a database was given up because a stop or deletion of it waits. */
export const isEndWaiting = (error: unknown): boolean => isOfType(error, endWaits)

/** Whether a step did not end in time: its host, and nothing that it worked on, is the reason. */
export const isActivityTimeout = (error: unknown): boolean => causeOf(error) instanceof TimeoutFailure

/** Whether no host has taken a step in time, so that it has done nothing. */
export function isStartTimeout(error: unknown): boolean {
  const cause = causeOf(error)
  return cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START'
}

/** What a step failed with. */
const causeOf = (error: unknown): unknown => (error instanceof ActivityFailure ? error.cause : error)

function isOfType(error: unknown, type: string): boolean {
  const cause = causeOf(error)
  return cause instanceof ApplicationFailure && cause.type === type
}

function catalogueCode(type: string | null | undefined): string {
  return type && /^[A-Z][A-Z0-9_]+$/.test(type) ? type : 'ACTION_FAILED'
}

/** `startContainer` -> `start container`. */
function asWords(activity: string): string {
  return activity.replace(/([A-Z])/g, letter => ` ${letter.toLowerCase()}`)
}
