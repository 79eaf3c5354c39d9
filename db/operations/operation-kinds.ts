export type OperationKind = 'create' | 'deploy' | 'restore' | 'snapshot' | 'start' | 'stop' | 'restart' | 'delete'
/** `accepting`: stored, and not to be begun before `db/acceptance.ts` confirms it. */
export type OperationState = 'accepting' | 'queued' | 'running' | 'success' | 'error' | 'expired' | 'cancelled'

export interface OperationRow {
  id: string
  seq: string
  target_type: 'app' | 'database'
  target_id: string
  kind: OperationKind
  owner_id: string
  actor: string
  input: Record<string, unknown>
  state: OperationState
  step: string | null
  code: string | null
  message: string | null
  created_at: Date
  started_at: Date | null
  finished_at: Date | null
  cancel_requested_at: Date | null
  cancel_requested_by: string | null
  retry_of: string | null
}

/**
 * Kinds that are worked on beside the other operations of their application. Of each group one is under way at a time: deploys
 * and restores make a version serve, a snapshot copies what does.
 */
export const besides: readonly (readonly OperationKind[])[] = [['deploy', 'restore'], ['snapshot']]

/** What a deploy or restore does while nothing else may touch the application; before, it only fetches and builds beside it. */
export const changingVersions = 'changing versions'

/** The same deploy once it has failed: until its host answers, the application is neither the old version nor the new one. */
export const goingBack = (hostId: string): string =>
  `${changingVersions} back: waiting for host ${hostId} to put back the files`

/** The same deploy while its host tries in vain, and is tried again. */
export const stuckGoingBack = (words: string): string => `${changingVersions} back, tried again: ${words}`
