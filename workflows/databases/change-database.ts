import { ApplicationFailure, patched } from '@temporalio/workflow'
import type { StartedDatabase } from '../../activities/database-host.ts'
import type { DatabaseOperation } from '../../activities/databases/operation.ts'
import { type Undo, undoable } from '../undo.ts'
import { type DatabaseHost, records, secondsFor, stepOf } from './database-steps.ts'

/**
 * Gives the database another password, and ends connections that were opened with the old one. The row has the new generation before the
 * engine gets it; a rotation that fails gives the old one back, so that exactly one password works.
 */
export async function rotatePassword(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const giveBack: UndoStep = [
    'give the old password back',
    async () => {
      const generation = await records.revertRotation(operation)
      if (generation === 0 && patched('undo-of-taken-over')) return
      await records.databaseServesAgain(operation, await host.patient.setDatabasePassword(step, generation))
    },
  ]
  const command = host.commandWithin(await admit(operation, { demand: demandRunning, undos: [giveBack] }))
  await undoable(null, async undo => {
    undo(...giveBack)
    await records.recordStep(operation.id, 'setting the password')
    const before = await records.beginRotation(operation)
    const started = await command.setDatabasePassword(step, before)
    await records.databaseServes(operation, started)
  })
}

/** Replaces the certificates; the engine takes them without a restart where it can. */
export async function renewCertificate(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const command = host.commandWithin(await admit(operation, { demand: demandRunning }))
  await records.recordStep(operation.id, 'replacing the certificates')
  await records.databaseServes(operation, await command.reissueCertificate(stepOf(operation)))
}

/**
 * Gives the engine other limits, by one stop and one start, unless it has them; if it does not serve with them it gets the old ones back. Less memory than the
 * data of an engine take that has all of them in memory is refused before.
 */
export async function resizeDatabase(operation: DatabaseOperation, host: DatabaseHost): Promise<void> {
  const step = stepOf(operation)
  const { patient } = host
  const { wasRunning, wasRestarting = true, mustFit, isSameMemory = false } = operation
  if (isSameMemory || (!wasRunning && !mustFit)) return records.databaseResized(operation, null)
  const unlimit: UndoStep = [
    'let the engine use its old memory',
    () => patient.fitDatabaseMemory({ ...step, back: true }),
  ]
  const startAgain: UndoStep = [
    'start the engine with its old memory',
    async () => {
      await patient.stopDatabase({ ...step, back: true }, { mustRun: false })
      const started: StartedDatabase = await patient.startDatabase({ ...step, back: true }, { mustStand: false })
      await records.databaseServesAgain(operation, started)
    },
  ]
  // Of a run that was lost: what it has not recorded as restarting, it has not stopped.
  const undos = [...(mustFit ? [unlimit] : []), ...(wasRunning && wasRestarting ? [startAgain] : [])]
  const command = host.commandWithin(await admit(operation, { undos }))
  await undoable(null, async undo => {
    if (mustFit) {
      // Refused here, nothing has changed. Accepted, the engine takes no more than fits until it is started with less.
      undo(...unlimit)
      await records.recordStep(operation.id, 'comparing the data with the memory')
      await command.fitDatabaseMemory(step)
    }
    if (!wasRunning) return records.databaseResized(operation, null)
    undo(...startAgain)
    await records.recordDatabaseStatus(operation, 'restarting', 'stopping the engine')
    await command.stopDatabase(step, { mustRun: false })
    const started = await command.startDatabase(step, { mustStand: false })
    await records.databaseResized(operation, started)
  })
}

type UndoStep = Parameters<Undo>

/**
 * As `secondsFor`, with a further `demand`. What another run had started is undone if this one is refused: only this one knows of it.
 */
async function admit(
  operation: DatabaseOperation,
  { demand, undos = [] }: { demand?: (operation: DatabaseOperation) => void; undos?: UndoStep[] },
): Promise<number> {
  return undoable(null, async undo => {
    if (operation.wasBegun && undos.length > 0 && patched('undo-of-taken-over')) for (const each of undos) undo(...each)
    demand?.(operation)
    return secondsFor(operation)
  })
}

function demandRunning({ wasRunning }: DatabaseOperation): void {
  if (wasRunning) return
  throw ApplicationFailure.nonRetryable('The database does not run. Start it first.', 'DATABASE_NOT_RUNNING')
}
