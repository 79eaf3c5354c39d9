import { ApplicationFailure, CancellationScope, isCancellation } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { failureOf, isPlaceLost } from '../failures.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/** Max attempts of a snapshot that loses its host's slot. */
const maxAttempts = 3

/** A dump is stored, restored from there into another engine and compared before it counts as good, or nothing but the reason stays. */
export async function snapshotDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  try {
    await records.reserveVolumes(operation)
    for (let attempt = 1; ; attempt++) {
      await records.recordStep(operation.id, 'waiting for its host, which takes one snapshot at a time')
      if (!(await records.keepDatabaseSnapshotPlace(operation))) await host.place.awaitDatabaseSnapshotPlace(step)
      try {
        const taken = await host.copy.takeDatabaseSnapshot(step)
        await records.databaseSnapshotTaken(operation, taken)
        return
      } catch (error) {
        if (!isPlaceLost(error)) throw error
        if (attempt === maxAttempts) throw ApplicationFailure.nonRetryable(lostTooOften, 'SNAPSHOT_FAILED')
      }
    }
  } catch (error) {
    const reason = isCancellation(error) ? { code: 'SNAPSHOT_FAILED', message: ended } : failureOf(error)
    await CancellationScope.nonCancellable(() => records.databaseSnapshotFailed(operation, reason))
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveDatabaseSnapshotPlace(operation))
  }
}

const lostTooOften = 'The host gave its place for snapshots to another one again and again while this one was taken.'
const ended = 'The snapshot was ended, because the database was started, stopped, resized or deleted meanwhile.'
