import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import type { Db } from '../../db/database.ts'
import { clearUndoFailure, markUndoRetried, mayEndUndo } from '../../db/operations/undo-failures.ts'
import { tellUndoFrom } from '../../policy/apps/undo-attempts.ts'
import { refusal, withCode } from '../failures.ts'
import type { StepOf } from '../releases/release.ts'

/**
 * Puts back the files of a release. What fails again and again is told to people meanwhile, and tried again for as long as nobody asks
 * to end its operation; rejects with RESTORE_INTERRUPTED then.
 */
export async function puttingBack(
  db: Db,
  { operationId, deploymentId }: StepOf,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    const failure = withCode(error)
    const again = !(failure instanceof ApplicationFailure && failure.nonRetryable)
    const { attempt } = activityInfo()
    if (!operationId || !again || attempt < tellUndoFrom || cancellationSignal().aborted) throw error
    const words = `The files that the deploy had replaced could not be put back: ${(failure as Error).message}`
    // Asked before it is marked anew: what counts is what was asked since people could know.
    if (await mayEndUndo(db, operationId)) throw refusal('RESTORE_INTERRUPTED', words)
    await markUndoRetried(db, { operationId, deploymentId, words })
    throw error
  }
  if (operationId && activityInfo().attempt > tellUndoFrom) await clearUndoFailure(db, operationId)
}
