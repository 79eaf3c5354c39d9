import { permits, roles } from '../../policy/accounts/permissions.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { queueMail } from '../accounts/mails.ts'
import { isInWorkspace } from '../accounts/workspaces.ts'
import { auditRow } from '../audit.ts'
import type { Db } from '../database.ts'
import { announceSources, renewWebhook } from './webhooks.ts'

/** Roles that may set up what an application is deployed from. */
export const deployingRoles: readonly string[] = roles.filter(role => permits(role, 'deploy_webhook'))

interface Change {
  keys: SealKeys
  newAddress(): string
  workspaceId: string
  /** Id of the account that makes the change. */
  actor: string
}

interface Pair {
  app_id: string
  user_id: string
}

/**
 * Makes a change of a workspace and withdraws the means of members who lose the right to deploy: repositories that they linked are
 * unlinked, and webhooks whose address they could see get a new address and secret. The owner is notified by mail. Resolves to the
 * applications whose sources have changed. Throws what `change` throws.
 */
export async function withdrawDeployRights(
  trx: Db,
  { keys, newAddress, workspaceId, actor }: Change,
  change: () => Promise<unknown>,
): Promise<string[]> {
  // Changes of one workspace are serialized; a caller who is not in it locks nothing.
  const { rows } = await trx.raw(`select w.id from workspaces w where w.id = :id and ${isInWorkspace} for update`, {
    id: workspaceId,
    userId: actor,
  })
  // Changes of workspaces that share an application are serialized too: each would otherwise count on a right that the other removes.
  if (rows.length > 0)
    await trx('apps')
      .whereIn('id', trx('workspace_apps').where({ workspace_id: workspaceId }).select('app_id'))
      .orderBy('id')
      .forNoKeyUpdate()
      .select('id')
  const before = await deployersOf(trx, workspaceId)
  await change()
  const deployers = new Set((await stillDeploying(trx, before)).map(keyOf))
  const lost = before.filter(pair => !deployers.has(keyOf(pair)))
  const acts = [...(await unlink(trx, lost)), ...(await renew(trx, keys, newAddress, lost))]
  if (acts.length > 0) await recordAndNotify(trx, actor, acts)
  return [...new Set(acts.map(({ appId }) => appId))]
}

const keyOf = ({ app_id, user_id }: Pair): string => `${app_id} ${user_id}`

const deployersOf = (trx: Db, workspaceId: string): Promise<Pair[]> =>
  trx('workspace_apps as s')
    .join('workspace_members as m', 'm.workspace_id', 's.workspace_id')
    .where('s.workspace_id', workspaceId)
    .whereIn('m.role', deployingRoles)
    .select('s.app_id', 'm.user_id')

/** Those of the pairs that have the right now, in any workspace. */
const stillDeploying = (trx: Db, pairs: Pair[]): Promise<Pair[]> =>
  trx('workspace_apps as s')
    .join('workspace_members as m', 'm.workspace_id', 's.workspace_id')
    .whereIn('m.role', deployingRoles)
    .whereIn('s.app_id', idsOf(pairs))
    .whereIn('m.user_id', [...new Set(pairs.map(({ user_id }) => user_id))])
    .select('s.app_id', 'm.user_id')

const idsOf = (pairs: Pair[]): string[] => [...new Set(pairs.map(({ app_id }) => app_id))].sort()

interface Act {
  appId: string
  action: 'apps.unlink' | 'apps.webhook'
}

async function unlink(trx: Db, lost: Pair[]): Promise<Act[]> {
  if (lost.length === 0) return []
  const removed: Pair[] = await trx('git_links')
    .whereIn(
      ['app_id', 'user_id'],
      lost.map(({ app_id, user_id }) => [app_id, user_id]),
    )
    .delete()
    .returning(['app_id', 'user_id'])
  return removed.map(({ app_id }) => ({ appId: app_id, action: 'apps.unlink' }))
}

async function renew(trx: Db, keys: SealKeys, newAddress: () => string, lost: Pair[]): Promise<Act[]> {
  const acts: Act[] = []
  for (const appId of idsOf(lost))
    if (await renewWebhook(trx, keys, appId, newAddress())) acts.push({ appId, action: 'apps.webhook' })
  return acts
}

/** Records the acts under the account that removed the right, and mails the owner, whose pushes no longer arrive. */
async function recordAndNotify(trx: Db, actor: string, acts: Act[]): Promise<void> {
  const ids = [...new Set(acts.map(({ appId }) => appId))]
  const apps: { id: string; name: string; owner_id: string }[] = await trx('apps')
    .whereIn('id', ids)
    .orderBy('name')
    .select('id', 'name', 'owner_id')
  const [first] = apps
  if (!first) return
  const accountId = first.owner_id
  await trx('audit').insert(
    acts.map(({ appId, action }) =>
      auditRow({ accountId, actor, action, resource: appId, result: 'success', operationId: null }),
    ),
  )
  for (const id of ids) await announceSources(trx, id)
  const names = apps.map(({ name }) => name).join(', ')
  await queueMail(trx, { userId: accountId, template: 'deploys-withdrawn', fields: { apps: names } })
}
