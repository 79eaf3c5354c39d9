import { CancellationScope } from '@temporalio/workflow'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { neverUsedGeneration } from '../../policy/databases/database-steps.ts'
import { failureOf } from '../failures.ts'
import { undoable } from '../undo.ts'
import { type DatabaseHost, records, stepOf } from './database-steps.ts'

/** A row becomes a database whose owner can log in, or leaves nothing but the reason of its failure. */
export async function createDatabase(operation: DatabaseOperation, { making, patient }: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  try {
    await undoable(null, async undo => {
      // What stays undone is swept by the host.
      undo(null, () => patient.removeDatabaseVolumes(step))
      await records.recordStep(operation.id, 'making the data folder')
      await making.prepareDatabase(step)
      undo(null, () => patient.removeDatabaseContainers(step))
      await records.recordDatabaseStatus(operation, 'starting', 'starting the engine')
      await startOnFreePort(operation, making)
      await records.recordStep(operation.id, 'setting the password')
      const started = await making.setDatabasePassword(step, neverUsedGeneration)
      await records.databaseServes(operation, started)
    })
  } catch (error) {
    await CancellationScope.nonCancellable(() => records.creationFailed(operation, failureOf(error)))
  }
}

/** Max ports that are tried: other programs of the machine may have some of the range. */
const maxPorts = 5

async function startOnFreePort(operation: DatabaseOperation, making: DatabaseHost['making']): Promise<void> {
  for (let tried = 1; ; tried++) {
    try {
      await making.startDatabase(stepOf(operation), { mustStand: false })
      return
    } catch (error) {
      if (failureOf(error).code !== 'CONTAINER_NETWORK_CONFLICT' || tried === maxPorts) throw error
      await records.takeAnotherPort(operation)
    }
  }
}
