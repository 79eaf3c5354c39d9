import { ApplicationFailure, CancellationScope, patched } from '@temporalio/workflow'
import type { LaneOperation } from '../activities/releases/release.ts'
import { failureOf, isPlaceLost } from './failures.ts'
import { type Host, records } from './lane-steps.ts'
import type { Exclusive } from './turns.ts'

/** A snapshot that loses its host's place is copied anew, so many times in all. */
const copiesAtMost = 3

const waiting = 'waiting for its host, which takes one snapshot at a time'

/**
 * The application's files become an archive that is read back before it is called good, or nothing but the reason stays. The
 * program runs on, but for the moment in which only what has changed meanwhile is copied.
 */
export async function snapshot(operation: LaneOperation, host: Host, files: Exclusive): Promise<void> {
  try {
    if (patched('snapshot-place-first')) await copyInTurn(operation, host, files)
    else {
      await files(async () => {
        await records.recordStep(operation.id, waiting)
        await copy(operation, host)
      })
    }
  } catch (error) {
    await CancellationScope.nonCancellable(() => records.snapshotFailed(operation, failureOf(error)))
  }
}

/**
 * The host's place first, then the files: who waits for the snapshots of others is not to hold up the deploys of its own
 * application. A place that was lost, while a deploy had the files or in the middle of copying, is waited for again without them.
 */
async function copyInTurn(operation: LaneOperation, host: Host, files: Exclusive): Promise<void> {
  const { id, release } = operation
  try {
    for (let taken = false, copies = 0; !taken; ) {
      await records.recordStep(id, waiting)
      // Begun anew after a lost Temporal it may have it already; who is next waits for it then, and would not let it by.
      if (!(await records.keepSnapshotPlace(operation))) await host.place.awaitSnapshotPlace(release, id)
      taken = await files(async () => {
        if (!(await records.keepSnapshotPlace(operation))) return false
        copies++
        return copy(operation, host).then(
          () => true,
          error => {
            if (!isPlaceLost(error) || !patched('snapshot-place-lost')) throw error
            if (copies === copiesAtMost) throw ApplicationFailure.nonRetryable(lostTooOften, 'SNAPSHOT_FAILED')
            return false
          },
        )
      })
    }
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveSnapshotPlace(operation))
  }
}

const lostTooOften = 'The host gave its place for snapshots to another one again and again while this one was copied.'

async function copy(operation: LaneOperation, host: Host): Promise<void> {
  const taken = await host.copy.takeSnapshot(operation.release, operation.id)
  await records.snapshotTaken(operation, taken)
}
