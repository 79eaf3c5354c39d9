import { CancellationScope, patched } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { neverUsedGeneration } from '../../policy/databases/database-steps.ts'
import type { Exclusive } from '../locks.ts'
import { undoable } from '../undo.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'
import { inSnapshotSlot } from './snapshot-slot.ts'

/**
 * A snapshot becomes the contents of the database: loaded and compared alongside the engine that serves, then put in its place by one stop
 * and one start at the same address. The volume before stays for a while (`berth databases undo`). A restore that fails changes nothing.
 */
export async function restoreDatabase(
  operation: DatabaseOperation,
  host: DatabaseHost,
  exclusive: Exclusive,
): Promise<void> {
  const step = stepOf(operation)
  const { patient } = host
  await undoable(null, async undo => {
    undo(null, () => patient.discardRestore(step))
    await records.reserveVolumes(operation)
    await prepareInSlot(operation, host)
    // From here on it ends as a whole: an engine between two volumes serves no client.
    await CancellationScope.nonCancellable(() =>
      exclusive(async () => {
        const runs = await records.beginSwitch(operation)
        if (runs) {
          undo('start the database again', async () => {
            await records.databaseServesAgain(operation, await patient.startDatabase(step, { mustStand: false }))
          })
          await patient.stopDatabase(step, { mustRun: false })
        }
        undo('go back to the volume before', () => records.revertVolume(operation))
        await records.switchVolume(operation)
        if (!runs) return records.databaseRestored(operation, null)
        await host.switching.startDatabase(step, { mustStand: false })
        // It may have been rotated while the copy was made; also proves that its owner can log in.
        const started = await host.switching.setDatabasePassword(step, neverUsedGeneration)
        await records.databaseRestored(operation, started)
      }),
    )
  })
}

/** Loads the copy in a snapshot slot of the host, for which accounts alternate: restores and snapshots share one queue. */
async function prepareInSlot(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const loading = () => records.recordStep(operation.id, 'loading the snapshot beside the database that serves')
  if (!patched('restore-in-slot')) {
    await loading()
    return host.copy.prepareRestore(step)
  }
  try {
    await inSnapshotSlot(operation, host, async () => {
      await loading()
      await host.copy.prepareRestore({ ...step, inSlot: true })
    })
  } finally {
    await CancellationScope.nonCancellable(() => records.leaveDatabaseSnapshotPlace(operation))
  }
}
