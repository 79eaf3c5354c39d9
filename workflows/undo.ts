import { CancellationScope } from '@temporalio/workflow'
import { isClaimLost } from './failures.ts'

export type Undo = () => Promise<void>

/**
 * Runs a story whose steps register how they are undone BEFORE they happen. When the story fails or is cancelled, the undos
 * run in reverse order, shielded from cancellation, and the failure goes on. `say` tells of it first. An undo that fails does not
 * stop the others. Of an operation that another run of the lane has taken over nothing is undone: it goes on there.
 */
export async function undoable<T>(say: Undo | null, story: (undo: (step: Undo) => void) => Promise<T>): Promise<T> {
  const steps: Undo[] = []
  try {
    return await story(step => steps.push(step))
  } catch (error) {
    if (isClaimLost(error)) throw error
    await CancellationScope.nonCancellable(async () => {
      await say?.()
      for (const step of steps.reverse()) await step().catch(() => {}) // the host's sweep takes what could not be undone
    })
    throw error
  }
}
