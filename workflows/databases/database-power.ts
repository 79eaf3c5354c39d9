import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import type { ContainerExit } from '../../activities/releases/release.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { failureOf } from '../failures.ts'
import { type DatabaseHost, demandTime, records, secondsFor, stepOf } from './database-steps.ts'

/** Starts the engine on the data that are there. A container that a failed start has left is adopted. */
export async function startDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  // Not started when its caller was answered already. Started, it goes on as long as the engine does: its caller reads that it is in doubt.
  await demandTime(operation)
  if (!operation.wasRunning) await records.recordDatabaseStatus(operation, 'starting', 'starting the engine')
  const started = await host.starting.startDatabase(stepOf(operation), {
    mustStand: operation.wasRunning && !operation.wasBegun,
  })
  await records.databaseServes(operation, started)
}

/** Stops the engine, which is then the desired state. */
export async function stopDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  // Another run that had started may have recorded already what is desired.
  const { wasBegun = false } = operation
  const wasWanted = operation.wasDesired === 'running' || wasBegun
  let isRecorded = wasBegun
  let exit: ContainerExit
  try {
    const command = host.commandWithin(await secondsFor(operation))
    // Before the engine ends, so that its end does not count as a crash.
    await records.recordDatabaseDesired(operation, 'stopped')
    isRecorded = true
    exit = await command.stopDatabase(stepOf(operation), { mustRun: !wasBegun })
  } catch (error) {
    const stopped = failureOf(error).code === 'CONTAINER_ALREADY_STOPPED'
    if (!stopped && isRecorded && wasWanted) await records.recordDatabaseDesired(operation, 'running')
    throw error
  }
  await records.databaseStopped(operation, exit)
}

/** Removes the container first: until then the deletion can fail without a loss; once the row is deleted it is final. */
export async function deleteDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const command = host.commandWithin(await secondsFor(operation))
  await records.recordDatabaseStatus(operation, 'deleting', 'removing the containers')
  await command.removeDatabaseContainers(stepOf(operation))
  await records.databaseDeleted(operation)
  // No caller waits for this any more.
  await host.making.removeDatabaseVolumes(stepOf(operation)).catch(ignoreError('the host sweeps it'))
}
