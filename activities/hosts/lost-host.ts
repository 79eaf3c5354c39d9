import { removeApp } from '../../db/apps/app-creation.ts'
import type { Db } from '../../db/database.ts'
import { endLostOperation, findAppLoss } from '../../db/hosts/host-forgetting.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Fence } from '../steps/claims.ts'

/**
 * Ends an operation of an application whose files were lost with a forgotten host. A deletion needs no host and succeeds, a restore
 * continues at the host that it has chosen, and everything else would find no files. False = it may run.
 */
export async function endForLostHost(
  db: Db,
  fence: Fence,
  { id, kind, target_id: appId }: operations.OperationRow,
): Promise<boolean> {
  const loss = await findAppLoss(db, appId)
  if (!loss || (!loss.nowhere && (kind === 'restore' || kind === 'delete'))) return false
  await fence(id, async trx => {
    if (kind !== 'delete') return endLostOperation(trx, id, loss.hostId)
    await removeApp(trx, appId)
    await operations.finishOperation(trx, id, { state: 'success' })
  })
  return true
}
