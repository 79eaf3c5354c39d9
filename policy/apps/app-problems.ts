import type { ErrorCode } from '../errors.ts'

/** What is wrong with an application until its owner or an operator does something about it. */
export interface Problem {
  code: ErrorCode
  message: string
}

export interface Troubled {
  /** The forgotten host that had its files. */
  lost_with: string | null
  /** What a failed deploy has left changed. */
  undo_failure: string | null
}

/** Why an application is not as its last successful deploy has made it, and what to do; undefined when it is. */
export function problemOf({ lost_with: hostId, undo_failure: left }: Troubled): Problem | undefined {
  if (hostId !== null) return { code: 'CLUSTER_UNAVAILABLE', message: lostWith(hostId) }
  return left === null ? undefined : { code: 'RESTORE_INTERRUPTED', message: left }
}

/** For the owner of an application whose host was forgotten. */
export const lostWith = (hostId: string): string =>
  `The host ${hostId} is gone for good, and the files of this application with it. Restore one of its snapshots, which brings it to another host, or delete it.`

/** For the owner of an application that was still being created there. */
export const lostInCreation = (hostId: string): string =>
  `The host ${hostId} is gone for good, and was lost before the application was up. Upload it again: it comes to another host.`
