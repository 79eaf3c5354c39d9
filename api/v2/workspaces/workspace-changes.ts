import { type Db, transaction } from '../../../db/database.ts'
import { lockDeployers, withdrawDeploys } from '../../../db/git/deploy-rights.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'

/** A change by which members of a workspace may lose rights, and what they could deploy with, in one transaction. */
export async function changeMembers(
  { db, config, sources }: Services,
  { user }: Caller,
  workspaceId: string,
  change: (trx: Db) => Promise<unknown>,
): Promise<void> {
  const changed = await transaction(db, async trx => {
    const deployers = await lockDeployers(trx, workspaceId, user.id)
    await change(trx)
    return withdrawDeploys(trx, config, user.id, deployers)
  })
  // The notification reaches this process too, but possibly after the next request.
  for (const appId of changed) sources.drop(appId)
}
