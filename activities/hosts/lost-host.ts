import { removeApp } from '../../db/apps/app-creation.ts'
import type { Db } from '../../db/database.ts'
import { removeDatabase } from '../../db/databases/database-creation.ts'
import { endLostOperation, findLoss } from '../../db/hosts/host-forgetting.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Fence } from '../steps/claims.ts'

/**
 * Ends an operation of an application or database whose files were lost with a forgotten host. A deletion needs no host and succeeds, a
 * restore continues at the host that it has chosen, and everything else would find no files. False = it may run.
 */
export async function endForLostHost(
  db: Db,
  fence: Fence,
  { id, kind, target_type: type, target_id: targetId }: operations.OperationRow<string>,
): Promise<boolean> {
  const loss = await findLoss(db, { type, id: targetId })
  if (!loss || (!loss.nowhere && (kind === 'restore' || kind === 'delete'))) return false
  await fence(id, async trx => {
    if (kind !== 'delete') return endLostOperation(trx, id, loss.hostId)
    await (type === 'app' ? removeApp : removeDatabase)(trx, targetId)
    await operations.finishOperation(trx, id, { state: 'success' })
  })
  return true
}
