import { CancellationScope } from '@temporalio/workflow'
import type { LaneOperation } from '../activities/release.ts'
import { failureOf } from './failures.ts'
import { type Host, records } from './lane-steps.ts'
import type { Exclusive } from './turns.ts'

/**
 * The application's files become an archive that is read back before it is called good, or nothing but the reason stays. The
 * program runs on, but for the moment in which only what has changed meanwhile is copied.
 */
export async function snapshot(operation: LaneOperation, { copy }: Host, files: Exclusive): Promise<void> {
  try {
    await files(async () => {
      await records.recordStep(operation.id, 'waiting for its host, which takes one snapshot at a time')
      const taken = await copy.takeSnapshot(operation.release, operation.id)
      await records.snapshotTaken(operation, taken)
    })
  } catch (error) {
    await CancellationScope.nonCancellable(() => records.snapshotFailed(operation, failureOf(error)))
  }
}
