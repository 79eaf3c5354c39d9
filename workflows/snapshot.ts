import { ApplicationFailure, CancellationScope, patched } from '@temporalio/workflow'
import type { LaneOperation } from '../activities/releases/release.ts'
import { snapshotSlotWait } from '../policy/hosts/host-slots.ts'
import { failureOf, isPlaceLost } from './failures.ts'
import { type Host, records } from './lane-steps.ts'
import type { Exclusive } from './locks.ts'

/** Max copies of a snapshot that loses its slot. */
const maxCopies = 3

const waiting = `${snapshotSlotWait}, which takes one snapshot of an account at a time`

/**
 * The application's files become an archive that is read back before it counts as good, or nothing but the reason stays. The
 * program keeps running, except while the last changes are copied.
 */
export async function snapshot(operation: LaneOperation, host: Host, files: Exclusive): Promise<void> {
  try {
    if (patched('snapshot-place-first')) await copyWithSlot(operation, host, files)
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
 * First the host's slot, then the files: a snapshot that waits for others must not hold up the deploys of its own application. A slot
 * that was lost while a deploy had the files, or during the copy, is waited for again without the files.
 */
async function copyWithSlot(operation: LaneOperation, host: Host, files: Exclusive): Promise<void> {
  const { id, release } = operation
  try {
    for (let taken = false, copies = 0; !taken; ) {
      await records.recordStep(id, waiting)
      // Started again after Temporal was lost, it may hold the slot already: the next in the queue waits for it, and would block it.
      if (!(await records.keepSnapshotPlace(operation))) await host.place.awaitSnapshotPlace(release, id)
      taken = await files(async () => {
        if (!(await records.keepSnapshotPlace(operation))) return false
        copies++
        return copy(operation, host).then(
          () => true,
          error => {
            if (!isPlaceLost(error) || !patched('snapshot-place-lost')) throw error
            if (copies === maxCopies) throw ApplicationFailure.nonRetryable(lostTooOften, 'SNAPSHOT_FAILED')
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
