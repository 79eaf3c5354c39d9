import { ApplicationFailure } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { snapshotSlotWait } from '../../policy/hosts/host-slots.ts'
import { isPlaceLost } from '../failures.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/** Max attempts of work that loses its slot. */
const maxAttempts = 3
const lostTooOften = 'Other snapshots took its slot at the host three times. Try again.'

/** Runs work in a slot that a host has for snapshots, restores and drills; accounts alternate. The caller gives the slot back. */
export async function inSnapshotSlot<T>(
  operation: DatabaseOperation,
  { place }: Pick<DatabaseHost, 'place'>,
  work: () => Promise<T>,
): Promise<T> {
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
