import { cancellationSignal } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { MiB } from '../../../lib/bytes.ts'
import type { UsedMemory } from '../../../policy/databases/database-warnings.ts'
import { refusal } from '../../failures.ts'
import { databaseContainerName } from '../names.ts'
import { type PreparationOptions, servingInstead } from '../preparation.ts'
import type { DatabaseStep, DatabaseStepInput, guardedDatabaseSteps } from '../steps.ts'

export interface MemoryFitOptions extends PreparationOptions {
  guard: Pick<ReturnType<typeof guardedDatabaseSteps>, 'turn' | 'assertCurrent'>
}

/** The step that checks whether the data of an engine fit into less memory. */
export function databaseMemoryFit(options: MemoryFitOptions) {
  const { engine, hosted, guard } = options

  /** Limits the data of a running engine to what the step gives it, so that they cannot grow afterwards. */
  async function limit(step: DatabaseStep): Promise<void> {
    const database = step.database()
    await guard.assertCurrent(step.operationId)
    await hosted.locally(database, local => hosted.adapterOf(database).admitWrites(local))
  }

  /** Reads an engine that is stopped: it runs with its former memory, unreachable. */
  async function privately(step: DatabaseStep, read: () => Promise<UsedMemory>): Promise<UsedMemory> {
    const ramMb = step.ramMbBefore ?? step.database().ramMb
    const database = { ...step.database(), ramMb }
    return servingInstead(options, database, cancellationSignal(), read)
  }

  return {
    /**
     * Rejects with INVALID_MEMORY when the data of the database do not fit into the memory that the operation gives it. A running engine
     * accepts no more than that from now on, until the step goes back.
     */
    async fitDatabaseMemory(input: DatabaseStepInput): Promise<void> {
      await guard.turn('fitDatabaseMemory', input, async step => {
        const database = step.database()
        const { memory } = hosted.adapterOf(database)
        if (!memory) return
        const isRunning = (await engine.inspect(databaseContainerName(database)))?.running ?? false
        if (isRunning) await limit(step)
        if (input.back) return
        const read = () => hosted.locally(database, memory)
        demandFit(await (isRunning ? read() : privately(step, read)), database.ramMb)
      })
    },
  }
}

function demandFit({ usedBytes, limitBytes }: UsedMemory, ramMb: number): void {
  if (usedBytes <= limitBytes) return
  const [used, limit] = [Math.ceil(usedBytes / MiB), Math.floor(limitBytes / MiB)]
  throw refusal(
    'INVALID_MEMORY',
    `The data of the database take ${used} MB, and with ${ramMb} MB of memory they may take ${limit} MB. Delete data first, or choose more memory.`,
  )
}

/** Whether a step starts an engine with less memory than it has in its row. */
export const hasLessMemory = (step: DatabaseStep): boolean =>
  step.ramMbBefore !== null && step.database().ramMb < step.ramMbBefore

/** The error that its caller gets when an engine ended, or did not serve in time, with less memory than before. */
export function tooLittleMemory(step: DatabaseStep, error: unknown): unknown {
  if (!(error instanceof ApplicationFailure) || error.type !== 'ACTION_FAILED') return error
  return refusal('INVALID_MEMORY', `It does not serve with ${step.database().ramMb} MB of memory: ${error.message}`)
}
