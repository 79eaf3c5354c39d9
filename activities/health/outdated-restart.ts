import { healthActor, isRestartOutdated, takeBackRestart } from '../../db/apps/app-health.ts'
import type { Db } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Fence } from '../steps/claims.ts'

/**
 * Ends a restart for the health of a run that is over, or works again: it may have waited for longer than its program was unhealthy.
 * False = it may run, as every other operation, and one that has started.
 */
export async function endOutdatedRestart(db: Db, fence: Fence, operation: operations.OperationRow): Promise<boolean> {
  const { id, actor, step } = operation
  if (actor !== healthActor || step !== null || !(await isRestartOutdated(db, operation))) return false
  const message = 'The run that was unhealthy is over, works again, or is not to be restarted any more.'
  await fence(id, async trx => {
    await takeBackRestart(trx, operation)
    await operations.finishOperation(trx, id, { state: 'cancelled', message })
  })
  return true
}
