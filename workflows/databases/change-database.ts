import { ApplicationFailure } from '@temporalio/workflow'
import type { StartedDatabase } from '../../activities/database-host.ts'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { undoable } from '../undo.ts'
import { type DatabaseHost, records, secondsFor, stepOf } from './database-steps.ts'

/**
 * Gives the database another password, and ends connections that were opened with the old one. The row has the new generation before the
 * engine gets it; a rotation that fails gives the old one back, so that exactly one password works.
 */
export async function rotatePassword(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  demandRunning(operation)
  const command = host.commandWithin(await secondsFor(operation))
  await undoable(null, async undo => {
    undo('give the old password back', async () => {
      const wanted = await records.revertRotation(operation)
      await records.databaseServesAgain(operation, await host.patient.setDatabasePassword(step, wanted))
    })
    await records.recordStep(operation.id, 'setting the password')
    const before = await records.beginRotation(operation)
    const started = await command.setDatabasePassword(step, before)
    await records.databaseServes(operation, started)
  })
}

/** Replaces the certificates; the engine takes them without a restart where it can. */
export async function renewCertificate(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  demandRunning(operation)
  const command = host.commandWithin(await secondsFor(operation))
  await records.recordStep(operation.id, 'replacing the certificates')
  await records.databaseServes(operation, await command.reissueCertificate(stepOf(operation)))
}

/**
 * Gives the engine other limits, by one stop and one start; if it does not serve with them it gets the old ones back. Less memory than the
 * data of an engine take that has all of them in memory is refused before.
 */
export async function resizeDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const { patient } = host
  if (!operation.wasRunning && !operation.mustFit) return records.databaseResized(operation, null)
  const command = host.commandWithin(await secondsFor(operation))
  await undoable(null, async undo => {
    if (operation.mustFit) {
      // Refused here, nothing has changed. Accepted, the engine takes no more than fits until it is started with less.
      undo('let the engine use its old memory', () => patient.fitDatabaseMemory({ ...step, back: true }))
      await records.recordStep(operation.id, 'comparing the data with the memory')
      await command.fitDatabaseMemory(step)
    }
    if (!operation.wasRunning) return records.databaseResized(operation, null)
    undo('start the engine with its old memory', async () => {
      await patient.stopDatabase({ ...step, back: true }, { mustRun: false })
      const started: StartedDatabase = await patient.startDatabase({ ...step, back: true }, { mustStand: false })
      await records.databaseServesAgain(operation, started)
    })
    await records.recordDatabaseStatus(operation, 'restarting', 'stopping the engine')
    await command.stopDatabase(step, { mustRun: false })
    const started = await command.startDatabase(step, { mustStand: false })
    await records.databaseResized(operation, started)
  })
}

function demandRunning({ wasRunning }: DatabaseOperation): void {
  if (wasRunning) return
  throw ApplicationFailure.nonRetryable('The database does not run. Start it first.', 'DATABASE_NOT_RUNNING')
}
