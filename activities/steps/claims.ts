import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { type Db, transaction } from '../../db/database.ts'
import {
  holdClaim,
  isClaimCurrent,
  type OperationClaim,
  type OperationSubject,
} from '../../db/operations/operation-claims.ts'
import { claimLost } from '../../policy/apps/claims.ts'
import { refusal } from '../failures.ts'
import type { LaneOperation } from '../releases/release.ts'

/** The run and step of the lane that this activity is. Steps are numbered in the order in which the lane came to them. */
export function claimOfActivity(): OperationClaim {
  const { workflowExecution, activityId } = activityInfo()
  if (!workflowExecution) throw new Error('Only a lane can claim an operation.')
  return { run: workflowExecution.runId, step: Number(activityId) }
}

/** What a step is told whose operation has ended, or is another run's. */
export function lostClaim(): ApplicationFailure {
  return refusal(claimLost, 'This operation is not worked on by this run of its lane any more.')
}

export type Fence = ReturnType<typeof fenced>

/** The operation that is written about: its id, and what its lane takes it to be, which is held against the rows. */
export type Written = LaneOperation | { id: string; appId: string } | string

/**
 * Writes what a step of an operation has to say in one transaction, and only while its run of the lane works on the operation; rejects
 * with ClaimLost (policy/apps/claims.ts) otherwise, also when the operation is not the one of this application, kind and deployment. What a
 * run repeats of an operation that it has ended writes nothing and succeeds.
 */
export function fenced(db: Db, claim: () => OperationClaim = claimOfActivity) {
  return async <T extends Written>(written: T, write: (trx: Db, written: T) => Promise<unknown>): Promise<void> => {
    const mine = claim()
    const id = typeof written === 'string' ? written : written.id
    const holding = await transaction(db, async trx => {
      const held = await holdClaim(trx, id, mine, subjectOf(written))
      if (held === 'held') await write(trx, written)
      return held
    })
    if (holding === 'lost') throw lostClaim()
  }
}

function subjectOf(written: Written): OperationSubject {
  if (typeof written === 'string') return {}
  if (!('release' in written)) return { appId: written.appId }
  const { kind, release } = written
  const { appId, deploymentId: id, number } = release
  return { appId, kind, ...(id !== null && { deployment: { id, release: number } }) }
}

/** What an operation that goes on without this run is told; every other failure goes on. */
export function unlessLost(error: unknown): void {
  if (!(error instanceof ApplicationFailure && error.type === claimLost)) throw error
}

/**
 * Rejects when a step at a host was given up, or its operation has ended or is another run's by now. To be asked just before an effect outside
 * of Postgres: who gave the step up may have told of a failure long ago.
 */
export async function assertMine(db: Db, operationId: string): Promise<void> {
  cancellationSignal().throwIfAborted()
  if (!(await isClaimCurrent(db, operationId, claimOfActivity()))) throw lostClaim()
}
