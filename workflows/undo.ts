import { CancellationScope } from '@temporalio/workflow'

export type Undo = () => Promise<void>

/**
 * Runs a story whose steps register how they are undone BEFORE they happen. When the story fails or is cancelled, the undos
 * run in reverse order, shielded from cancellation, and the failure goes on. `say` tells of it first. An undo that fails does not
 * stop the others.
 */
export async function undoable<T>(say: Undo | null, story: (undo: (step: Undo) => void) => Promise<T>): Promise<T> {
  const steps: Undo[] = []
  try {
    return await story(step => steps.push(step))
  } catch (error) {
    await CancellationScope.nonCancellable(async () => {
      await say?.()
      for (const step of steps.reverse()) await step().catch(() => {}) // the host's sweep takes what could not be undone
    })
    throw error
  }
}
