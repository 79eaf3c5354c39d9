import type { Db } from '../../db/database.ts'
import { isStartUnwanted } from '../../db/operations/operation-lookups.ts'
import { finishOperation, type OperationRow } from '../../db/operations/operations.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { endForLostHost } from '../hosts/lost-host.ts'
import { endSuspended } from '../releases/suspension.ts'
import type { Fence } from './claims.ts'

/** Ends an operation of an application or database that cannot run, with the reason. False = it may run. */
export async function endUnrunnable(
  db: Db,
  plans: Plans,
  fence: Fence,
  operation: OperationRow<string>,
): Promise<boolean> {
  if (await endForLostHost(db, fence, operation)) return true
  return (await endSuspended(db, plans, fence, operation)) || endUnwantedStart(db, fence, operation)
}

/** Ends a start that the host watch has queued behind a stop which it could not see yet: that would be undone. False = it may run. */
async function endUnwantedStart(db: Db, fence: Fence, operation: OperationRow<string>): Promise<boolean> {
  if (!(await isStartUnwanted(db, operation))) return false
  const message = 'It was stopped meanwhile, so its host does not start it again.'
  await fence(operation.id, trx => finishOperation(trx, operation.id, { state: 'cancelled', message }))
  return true
}
