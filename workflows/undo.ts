import { ApplicationFailure, CancellationScope } from '@temporalio/workflow'
import { failureOf, isClaimLost } from './failures.ts'

/** What an undo does, in words that follow "could not"; null for what is mended by itself when it fails. */
export type Undoing = string | null
export type Undo = (what: Undoing, step: () => Promise<void>) => void

/**
 * Runs a story whose steps register how they are undone BEFORE they happen. When the story fails or is cancelled, the undos
 * run in reverse order, shielded from cancellation, and the failure goes on. `say` tells of it first. An undo that fails does not
 * stop the others; the failure that goes on is RESTORE_INTERRUPTED then and names it. Of an operation that another run of the lane has
 * taken over nothing is undone: it goes on there.
 */
export async function undoable<T>(say: (() => Promise<void>) | null, story: (undo: Undo) => Promise<T>): Promise<T> {
  const steps: { what: Undoing; step: () => Promise<void> }[] = []
  try {
    return await story((what, step) => void steps.push({ what, step }))
  } catch (error) {
    if (isClaimLost(error)) throw error
    const left: string[] = []
    await CancellationScope.nonCancellable(async () => {
      await say?.()
      for (const { what, step } of steps.reverse())
        await step().catch(failure => {
          if (what !== null && !isClaimLost(failure)) left.push(`${what} (${failureOf(failure).message})`)
        })
    })
    throw left.length === 0 ? error : undoFailed(error, left)
  }
}

function undoFailed(error: unknown, left: readonly string[]): ApplicationFailure {
  const { code, message } = failureOf(error)
  const words = `It failed with ${code}: ${message} Then Berth could not ${left.join(', nor ')}. The application may be half changed: deploy it again, or restore a snapshot.`
  return ApplicationFailure.nonRetryable(words, 'RESTORE_INTERRUPTED')
}
