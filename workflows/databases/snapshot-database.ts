import { CancellationScope, isCancellation } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { failureOf, isActivityTimeout } from '../failures.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'
import { inSnapshotSlot } from './snapshot-slot.ts'

/** A dump is stored, restored from there into another engine and compared before it counts as good, or nothing but the reason stays. */
export async function snapshotDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  try {
    await records.reserveVolumes(operation)
    const taken = await inSnapshotSlot(
      operation,
      host,
      () => host.copy.takeDatabaseSnapshot(step),
      () => host.inFreeSlot.takeDatabaseSnapshot({ ...step, takesFreeSlot: true }),
    )
    await records.databaseSnapshotTaken(operation, taken)
  } catch (error) {
    const reason = isCancellation(error) ? { code: 'SNAPSHOT_FAILED', message: snapshotEnded } : failureOf(error)
    await CancellationScope.nonCancellable(() => records.databaseSnapshotFailed(operation, reason))
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveDatabaseSnapshotPlace(operation))
  }
}

const snapshotEnded = 'The snapshot was ended, because the database was started, stopped, resized or deleted meanwhile.'

/**
 * The newest snapshot is restored alongside everything that serves, and compared: evidence that it can be, or why not. One that is
 * cancelled shows nothing.
 */
export async function drillDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  /** What only the drill itself can show: other steps know nothing of the snapshot. */
  let shown: unknown
  const drill = () =>
    host.drill.drillSnapshot(step).catch(error => {
      shown = error
      throw error
    })
  try {
    await records.reserveVolumes(operation)
    const result = await inSnapshotSlot(operation, host, drill)
    await records.databaseDrilled(operation, result)
  } catch (error) {
    await CancellationScope.nonCancellable(async () => {
      const failure = failureOf(error)
      if (isCancellation(error)) await records.finish(operation.id, { state: 'cancelled', ...drillEnded })
      else if (failure.code === 'SNAPSHOT_NOT_FOUND') await records.finish(operation.id, { state: 'error', ...failure })
      else {
        const code = isActivityTimeout(error) ? 'CLUSTER_TIMEOUT' : error === shown ? failure.code : 'SNAPSHOT_FAILED'
        await records.databaseDrilled(operation, { digest: null, reason: failure.message, code })
      }
      await host.cleanup.discardDrill(step).catch(ignoreError('nothing of a drill serves anyone'))
    })
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveDatabaseSnapshotPlace(operation))
  }
}

const drillEnded = {
  code: 'SNAPSHOT_FAILED',
  message: 'The drill was ended, because that was requested or the database was deleted.',
}
