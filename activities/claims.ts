import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { type Db, transaction } from '../db/database.ts'
import { type Claim, holdClaim, isCurrent, lookAtClaim } from '../db/operation-claims.ts'
import { claimLost } from '../policy/claims.ts'
import { refusal } from './failures.ts'
import type { Release } from './release.ts'

/** The run and step of the lane that this activity is. Steps are numbered in the order in which the lane came to them. */
export function claimOfActivity(): Claim {
  const { workflowExecution, activityId } = activityInfo()
  if (!workflowExecution) throw new Error('Only a lane can claim an operation.')
  return { run: workflowExecution.runId, step: Number(activityId) }
}

function lostClaim(): ApplicationFailure {
  return refusal(claimLost, 'This operation is not worked on by this run of its lane any more.')
}

export type Fence = ReturnType<typeof fenced>

/**
 * Writes what a step of an operation has to say in one transaction, and only while its run of the lane works on the operation; rejects
 * with ClaimLost (policy/claims.ts) otherwise. What a run repeats of an operation that it has ended writes nothing and succeeds.
 */
export function fenced(db: Db, claim: () => Claim = claimOfActivity) {
  return async (operationId: string, write: (trx: Db) => Promise<unknown>): Promise<void> => {
    const mine = claim()
    const holding = await transaction(db, async trx => {
      const held = await holdClaim(trx, operationId, mine)
      if (held === 'held') await write(trx)
      return held
    })
    if (holding === 'lost') throw lostClaim()
  }
}

/** What an operation that goes on without this run is told; every other failure goes on. */
export function unlessLost(error: unknown): void {
  if (!(error instanceof ApplicationFailure && error.type === claimLost)) throw error
}

/**
 * Rejects when a step at a host was given up, or its operation has ended or is another run's by now. To be asked just before an effect outside
 * of Postgres: who gave the step up may have told of a failure long ago.
 */
export async function assertMine(db: Db, { operationId }: Pick<Release, 'operationId'>): Promise<void> {
  cancellationSignal().throwIfAborted()
  if (operationId && !(await isCurrent(db, operationId, claimOfActivity()))) throw lostClaim()
}

/** Whether a step beside the lane is to have its effect: not when its run has ended the operation already. Rejects with ClaimLost. */
export async function goesOn(db: Db, { operationId }: Pick<Release, 'operationId'>): Promise<boolean> {
  const holding = operationId ? await lookAtClaim(db, operationId, claimOfActivity().run) : 'held'
  if (holding === 'lost') throw lostClaim()
  return holding === 'held'
}
