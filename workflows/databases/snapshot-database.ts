import { CancellationScope, isCancellation } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { failureOf } from '../failures.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'
import { inSnapshotSlot } from './snapshot-slot.ts'

/** A dump is stored, restored from there into another engine and compared before it counts as good, or nothing but the reason stays. */
export async function snapshotDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  try {
    await records.reserveVolumes(operation)
    const taken = await inSnapshotSlot(operation, host, () => host.copy.takeDatabaseSnapshot(step), lostTooOften)
    await records.databaseSnapshotTaken(operation, taken)
  } catch (error) {
    const reason = isCancellation(error) ? { code: 'SNAPSHOT_FAILED', message: ended } : failureOf(error)
    await CancellationScope.nonCancellable(() => records.databaseSnapshotFailed(operation, reason))
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveDatabaseSnapshotPlace(operation))
  }
}

const lostTooOften = {
  code: 'SNAPSHOT_FAILED',
  message: 'Other snapshots took its place at the host three times. Try again.',
}
const ended = 'The snapshot was ended, because the database was started, stopped, resized or deleted meanwhile.'
