/** Of applications. */
export type OperationKind = 'create' | 'deploy' | 'restore' | 'snapshot' | 'start' | 'stop' | 'restart' | 'delete'
export type DatabaseOperationKind =
  | 'create'
  | 'start'
  | 'stop'
  | 'resize'
  | 'rotate'
  | 'certify'
  | 'delete'
  | 'snapshot'
  | 'restore'
  /** Of the operator: back to the volume before the last restore, to the present image, and a restore elsewhere as a test. */
  | 'undo'
  | 'upgrade'
  | 'drill'

/** What operations change. */
export interface KindsOf {
  app: OperationKind
  database: DatabaseOperationKind
}
export type TargetType = keyof KindsOf

/** The id of an application is never that of a database, but statements name the type too. */
export interface OperationTarget<Type extends TargetType = TargetType> {
  type: Type
  id: string
}

/** Identifies who works on an operation: one run of its lane, at one of its steps. Step numbers of a run increase. */
export interface OperationClaim {
  run: string
  step: number
}

/** `accepting`: stored, and not started before `db/acceptance.ts` confirms it. */
export type OperationState = 'accepting' | 'queued' | 'running' | 'success' | 'error' | 'expired' | 'cancelled'

export interface OperationRow<Kind extends string = OperationKind> {
  id: string
  seq: string
  target_type: TargetType
  target_id: string
  kind: Kind
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

/** The columns of a row, by name: a prepared statement for all columns would fail as soon as a migration adds one. */
export const operationColumns = `id, seq, target_type, target_id, kind, owner_id, actor, input, state, step, code, message,
  created_at, started_at, finished_at, cancel_requested_at, cancel_requested_by, retry_of`

/**
 * Kinds that run concurrently with other operations of their application or database. Of each group one runs at a time: deploys and
 * restores switch the serving version, a snapshot copies it, a drill does not touch it.
 */
export const concurrentKinds: readonly (readonly (OperationKind | DatabaseOperationKind)[])[] = [
  ['deploy', 'restore'],
  ['snapshot'],
  ['drill'],
]

/** The step of a deploy or restore during which nothing else may touch the application; before, it only fetches and builds. */
export const switchingVersions = 'changing versions'

/** The step of a failed deploy that waits for its host to roll back: the application is neither the old version nor the new one. */
export const rollingBack = (hostId: string): string =>
  `${switchingVersions} back: waiting for host ${hostId} to put back the files`

/** The step of a failed deploy whose rollback fails on the host, and is retried. */
export const rollbackFailing = (failure: string): string => `${switchingVersions} back, tried again: ${failure}`

/** The actor that requests a start of what is to run and does not: the watch of its host. */
export const watchActor = 'host-watch'
