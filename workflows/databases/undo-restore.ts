import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { neverUsedGeneration } from '../../policy/databases/database-steps.ts'
import { undoable } from '../undo.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/**
 * The volume before the last restore serves again, and the one that served is retained instead, so that an undo can be undone. A failure
 * leaves what served serving; a database that was stopped on purpose stays stopped.
 */
export async function undoRestore(operation: DatabaseOperation, { patient, switching }: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const { wasRunning } = operation
  const starts = operation.wasDesired === 'running'
  await undoable(null, async undo => {
    if (wasRunning)
      undo('start the database again', async () => {
        await records.databaseServesAgain(operation, await patient.startDatabase(step, { mustStand: false }))
      })
    if (starts) {
      await records.recordDatabaseStatus(operation, 'restarting', 'stopping the engine')
      await patient.stopDatabase(step, { mustRun: false })
    }
    undo('go back to the volume that served', () => records.revertSwap(operation))
    await records.swapVolumes(operation)
    if (!starts) return records.databaseRestored(operation, null)
    // Nothing else ends it: what did not run before is not started again.
    if (!wasRunning)
      undo('stop the engine', async () => {
        await patient.stopDatabase(step, { mustRun: false })
      })
    await records.recordStep(operation.id, 'starting the engine on the data before the restore')
    await switching.startDatabase(step, { mustStand: false })
    // The password may have been reset since; also proves that its owner can log in.
    const started = await switching.setDatabasePassword(step, neverUsedGeneration)
    await records.databaseRestored(operation, started)
  })
}
