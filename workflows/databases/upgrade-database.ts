import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { neverUsedGeneration } from '../../policy/databases/database-steps.ts'
import { undoable } from '../undo.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/**
 * The engine continues with the image that its host has under the name of its image now, by one stop and one start, once its owner can
 * log in. With an image that does not serve, it gets the former one back. One that is stopped stays stopped; the image is tried where
 * it is unreachable.
 */
export async function upgradeDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const { making, patient, switching } = host
  await records.recordStep(operation.id, 'looking for the present image')
  if (!(await making.chooseImage(step))) return records.databaseUpgraded(operation, null)
  if (!operation.wasRunning) {
    await records.recordStep(operation.id, 'trying the image where nobody reaches the database')
    await switching.proveImage(step)
    return records.databaseUpgraded(operation, null)
  }
  const back = { ...step, back: true }
  await undoable(null, async undo => {
    undo('start the database with its former image', async () => {
      await patient.stopDatabase(back, { mustRun: false })
      await records.databaseServesAgain(operation, await patient.startDatabase(back, { mustStand: false }))
    })
    await records.recordDatabaseStatus(operation, 'restarting', 'stopping the engine')
    await switching.stopDatabase(step, { mustRun: false })
    await records.recordStep(operation.id, 'starting the engine with the present image')
    await switching.startDatabase(step, { mustStand: false })
    const started = await switching.setDatabasePassword(step, neverUsedGeneration)
    await records.databaseUpgraded(operation, started)
  })
}
