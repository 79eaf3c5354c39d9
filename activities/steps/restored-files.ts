import { activityInfo, cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import type { Db } from '../../db/database.ts'
import { clearUndoFailure, markUndoRetried, mayEndUndo } from '../../db/operations/undo-failures.ts'
import { showUndoFrom } from '../../policy/apps/undo-attempts.ts'
import { refusal, withCode } from '../failures.ts'
import type { StepOf } from '../releases/release.ts'

/**
 * Puts back the files of a release. A failure that repeats is shown to people, and retried until someone requests the end of the
 * operation: then it rejects with RESTORE_INTERRUPTED.
 */
export async function retriedRestore(
  db: Db,
  { operationId, deploymentId }: StepOf,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    const failure = withCode(error)
    const retryable = !(failure instanceof ApplicationFailure && failure.nonRetryable)
    const { attempt } = activityInfo()
    if (!operationId || !retryable || attempt < showUndoFrom || cancellationSignal().aborted) throw error
    const words = `The files that the deploy had replaced could not be put back: ${(failure as Error).message}`
    // Checked before the mark is renewed: only a request that was made after people could see the failure counts.
    if (await mayEndUndo(db, operationId)) throw refusal('RESTORE_INTERRUPTED', words)
    await markUndoRetried(db, { operationId, deploymentId, words })
    throw error
  }
  if (operationId && activityInfo().attempt > showUndoFrom) await clearUndoFailure(db, operationId)
}
