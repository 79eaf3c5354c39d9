import type { ErrorCode } from '../errors.ts'

/** A problem of an application that its owner or an operator must solve. */
export interface Problem {
  code: ErrorCode
  message: string
}

export interface Troubled {
  /** The forgotten host that had its files. */
  lost_with: string | null
  /** What a failed deploy has changed and not undone. */
  undo_failure: string | null
}

/** How an application differs from its last successful deploy, and what to do; undefined when it does not. */
export function problemOf({ lost_with: hostId, undo_failure: undoFailure }: Troubled): Problem | undefined {
  if (hostId !== null) return { code: 'CLUSTER_UNAVAILABLE', message: lostWith(hostId) }
  return undoFailure === null ? undefined : { code: 'RESTORE_INTERRUPTED', message: undoFailure }
}

/** For the owner of an application whose host was forgotten. */
export const lostWith = (hostId: string): string =>
  `The host ${hostId} is permanently lost, and with it the files of this application. Restore one of its snapshots, which moves it to another host, or delete it.`

/** For the owner of an application that was still being created there. */
export const lostInCreation = (hostId: string): string =>
  `The host ${hostId} was permanently lost before the application was created. Upload it again; it will be placed on another host.`
