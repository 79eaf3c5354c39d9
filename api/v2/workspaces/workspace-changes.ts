import { type Db, transaction } from '../../../db/database.ts'
import { withdrawDeployRights } from '../../../db/git/deploy-rights.ts'
import { newWebhookAddress } from '../../../policy/git/webhooks/addresses.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'

/** A change by which members of a workspace may lose rights, with all that goes with these, in one transaction. */
export async function changeMembers(
  { db, config, sources }: Services,
  { user }: Caller,
  workspaceId: string,
  change: (trx: Db) => Promise<unknown>,
): Promise<void> {
  const changed = await transaction(db, trx =>
    withdrawDeployRights(
      trx,
      { keys: config.sealKeys, newAddress: () => newWebhookAddress(config.masterKey), workspaceId, actor: user.id },
      () => change(trx),
    ),
  )
  // The announcement reaches this process too, but maybe later than the next question.
  for (const appId of changed) sources.drop(appId)
}
