import { ApplicationFailure, CancellationScope } from '@temporalio/workflow'
import { failureOf, isClaimLost, isEndWaiting } from './failures.ts'

/** What an undo does, in words that follow "could not"; null for what something else repairs when it fails. */
type UndoName = string | null
export type Undo = (what: UndoName, step: () => Promise<void>) => void

/**
 * Runs a story whose steps register their undo BEFORE they happen. When the story fails or is cancelled, `beforeUndo` runs, then the
 * undos in reverse order, shielded from cancellation, and the failure is rethrown. An undo that fails does not stop the others;
 * then the failure is RESTORE_INTERRUPTED and names it, unless a stop or deletion waits for its end: what an undo would start is not
 * wanted then. Nothing is undone for an operation that another run of the lane has taken over: it continues there.
 */
export async function undoable<T>(
  beforeUndo: (() => Promise<void>) | null,
  story: (undo: Undo) => Promise<T>,
): Promise<T> {
  const steps: { what: UndoName; step: () => Promise<void> }[] = []
  try {
    return await story((what, step) => void steps.push({ what, step }))
  } catch (error) {
    if (isClaimLost(error)) throw error
    const failed: string[] = []
    await CancellationScope.nonCancellable(async () => {
      await beforeUndo?.()
      for (const { what, step } of steps.reverse())
        await step().catch(failure => {
          if (what !== null && !isClaimLost(failure) && !isEndWaiting(failure))
            failed.push(`${what} (${failureOf(failure).message})`)
        })
    })
    throw failed.length === 0 ? error : undoFailed(error, failed)
  }
}

function undoFailed(error: unknown, failed: readonly string[]): ApplicationFailure {
  const { code, message } = failureOf(error)
  const words = `It failed with ${code}: ${message} Then Berth could not ${failed.join(', nor ')}. What it changed may be half done: if it does not serve, restore a snapshot; an application can be deployed again instead.`
  return ApplicationFailure.nonRetryable(words, 'RESTORE_INTERRUPTED')
}
