import { type Db, transaction } from '../../../db/database.ts'
import { lockDeployers, withdrawDeploys } from '../../../db/git/deploy-rights.ts'
import type { Exchange } from '../../http/exchange.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'

interface WorkspaceCommand {
  /** The name of the endpoint. */
  action: string
  caller: Caller
  exchange: Exchange
  workspaceId: string
}

/** A change by which members of a workspace may lose rights, and what they could deploy with, in one transaction with its audit entry. */
export async function changeMembers(
  { db, config, sources }: Services,
  { action, caller, exchange, workspaceId }: WorkspaceCommand,
  change: (trx: Db) => Promise<unknown>,
): Promise<void> {
  const { user } = caller
  exchange.resource = workspaceId
  const changed = await transaction(db, async trx => {
    const deployers = await lockDeployers(trx, workspaceId, user.id)
    await change(trx)
    await auditWithin(trx, action, { caller }, exchange)
    return withdrawDeploys(trx, config, user.id, deployers)
  })
  // The notification reaches this process too, but possibly after the next request.
  for (const appId of changed) sources.drop(appId)
}
