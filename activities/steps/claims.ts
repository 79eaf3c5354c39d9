import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { type Db, transaction } from '../../db/database.ts'
import {
  holdClaim,
  isClaimCurrent,
  type OperationClaim,
  type OperationSubject,
} from '../../db/operations/operation-claims.ts'
import type { DatabaseOperationKind } from '../../db/operations/operation-kinds.ts'
import { claimLost } from '../../policy/apps/claims.ts'
import { refusal } from '../failures.ts'
import type { LaneOperation } from '../releases/release.ts'

/** The run of the lane that called this activity, and its step. Steps are numbered in the order in which the lane reaches them. */
export function claimOfActivity(): OperationClaim {
  const { workflowExecution, activityId } = activityInfo()
  if (!workflowExecution) throw new Error('Only a lane can claim an operation.')
  return { run: workflowExecution.runId, step: Number(activityId) }
}

/** The error of a step whose operation has ended, or belongs to another run. */
export function lostClaim(): ApplicationFailure {
  return refusal(claimLost, 'This run of the lane no longer works on this operation.')
}

export type Fence = ReturnType<typeof fenced>

/** The operation that is written about: its id, and what its lane believes about it, which is compared with the rows. */
export type Written = LaneOperation | OfDatabase | { id: string; appId: string } | string

interface OfDatabase {
  id: string
  kind: DatabaseOperationKind
  databaseId: string
}

/**
 * Writes the effects of a step in one transaction, only while its run of the lane holds the operation. Otherwise rejects with ClaimLost
 * (policy/apps/claims.ts), also when the operation is not of this application, kind and deployment. A step that a run repeats after it
 * has ended the operation writes nothing and succeeds.
 */
export function fenced(db: Db, claim: () => OperationClaim = claimOfActivity) {
  return async <T extends Written>(written: T, write: (trx: Db, written: T) => Promise<unknown>): Promise<void> => {
    const own = claim()
    const id = typeof written === 'string' ? written : written.id
    const state = await transaction(db, async trx => {
      const claimState = await holdClaim(trx, id, own, subjectOf(written))
      if (claimState === 'held') await write(trx, written)
      return claimState
    })
    if (state === 'lost') throw lostClaim()
  }
}

function subjectOf(written: Written): OperationSubject {
  if (typeof written === 'string') return {}
  if ('databaseId' in written) return { databaseId: written.databaseId, kind: written.kind }
  if (!('release' in written)) return { appId: written.appId }
  const { kind, release } = written
  const { appId, deploymentId: id, number } = release
  return { appId, kind, ...(id !== null && { deployment: { id, release: number } }) }
}

/** For `.catch`: ignores the loss of the claim, rethrows everything else. */
export function unlessLost(error: unknown): void {
  if (!(error instanceof ApplicationFailure && error.type === claimLost)) throw error
}

/**
 * Rejects when a step at a host was given up, or when its operation has ended or belongs to another run. Call it just before an effect
 * outside of Postgres: the lane that gave the step up may have reported its failure long ago.
 */
export async function assertCurrentClaim(db: Db, operationId: string): Promise<void> {
  cancellationSignal().throwIfAborted()
  if (!(await isClaimCurrent(db, operationId, claimOfActivity()))) throw lostClaim()
}
