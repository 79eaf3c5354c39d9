import { ApplicationFailure, patched } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { snapshotSlotWait } from '../../policy/hosts/host-slots.ts'
import { isPlaceLost, isStartTimeout } from '../failures.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/** Max attempts of work that loses its slot. */
const maxAttempts = 3
const lostTooOften = 'Other snapshots took its slot at the host three times. Try again.'

/**
 * Runs work in a slot that a host has for snapshots, restores and drills; accounts alternate. The caller gives the slot back. `inFreeSlot`, if
 * given, does the same in a slot that it finds free at a host that answers: to stand in line takes two more steps.
 */
export async function inSnapshotSlot<T>(
  operation: DatabaseOperation,
  { place }: Pick<DatabaseHost, 'place'>,
  work: () => Promise<T>,
  inFreeSlot?: () => Promise<T>,
): Promise<T> {
  try {
    if (inFreeSlot && patched('snapshot-in-free-slot')) return await inFreeSlot()
  } catch (error) {
    if (!isPlaceLost(error) && !isStartTimeout(error)) throw error
  }
  for (let attempt = 1; ; attempt++) {
    await records.recordStep(operation.id, `${snapshotSlotWait}, which takes one snapshot of an account at a time`)
    if (!(await records.keepDatabaseSnapshotPlace(operation))) await place.awaitDatabaseSnapshotPlace(stepOf(operation))
    try {
      return await work()
    } catch (error) {
      if (!isPlaceLost(error)) throw error
      if (attempt === maxAttempts) throw ApplicationFailure.nonRetryable(lostTooOften, 'SNAPSHOT_FAILED')
    }
  }
}
