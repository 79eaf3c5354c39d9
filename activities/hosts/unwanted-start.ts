import type { Db } from '../../db/database.ts'
import { isStartUnwanted } from '../../db/operations/operation-lookups.ts'
import { finishOperation, type OperationRow } from '../../db/operations/operations.ts'
import type { Fence } from '../steps/claims.ts'

/** Ends a start that the host watch has queued behind a stop which it could not see yet: that would be undone. False = it may run. */
export async function endUnwantedStart(db: Db, fence: Fence, operation: OperationRow<string>): Promise<boolean> {
  if (!(await isStartUnwanted(db, operation))) return false
  const message = 'It was stopped meanwhile, so its host does not start it again.'
  await fence(operation.id, trx => finishOperation(trx, operation.id, { state: 'cancelled', message }))
  return true
}
