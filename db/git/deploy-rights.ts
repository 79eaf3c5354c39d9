import { permits, roles } from '../../policy/accounts/permissions.ts'
import { newWebhookAddress } from '../../policy/git/webhooks/addresses.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { setBlocked } from '../accounts/accounts.ts'
import { queueMail } from '../accounts/mails.ts'
import { isInWorkspace } from '../accounts/workspaces.ts'
import { auditRow } from '../audit.ts'
import type { Db } from '../database.ts'
import { announceSources, renewWebhook } from './webhooks.ts'

/** Roles that may set up what an application is deployed from. */
export const deployingRoles: readonly string[] = roles.filter(role => permits(role, 'deploy_webhook'))

/** A member who may set up deploys of an application; one whose account is blocked may not. */
export interface Deployer {
  app_id: string
  user_id: string
}

/**
 * The deployers of a workspace, until the transaction ends: to be called before a change of its members or applications, with the
 * account that makes it.
 */
export async function lockDeployers(trx: Db, workspaceId: string, actor: string): Promise<Deployer[]> {
  // Changes of one workspace are serialized; an account that is not in it locks nothing.
  const { rows } = await trx.raw(`select w.id from workspaces w where w.id = :id and ${isInWorkspace} for update`, {
    id: workspaceId,
    userId: actor,
  })
  if (rows.length > 0) await lockApps(trx, [workspaceId])
  return deployersOf(trx).where('s.workspace_id', workspaceId)
}

/**
 * Blocks an account, which no longer deploys applications of others either; `actor` does that. To be called in the transaction that
 * records it.
 */
export async function blockDeployer(trx: Db, keys: DeployKeys, actor: string, userId: string): Promise<void> {
  const own = trx('workspace_members').where({ user_id: userId }).select('workspace_id')
  const workspaces = await trx('workspaces').whereIn('id', own).orderBy('id').forUpdate().select('id')
  await lockApps(
    trx,
    workspaces.map(({ id }) => id),
  )
  const deployers = await deployersOf(trx).where('m.user_id', userId)
  await setBlocked(trx, userId, true)
  await withdrawDeploys(trx, keys, actor, deployers)
}

/** So that changes of workspaces that share an application are serialized: each would otherwise take the other's right for one that stays. */
async function lockApps(trx: Db, workspaceIds: string[]): Promise<void> {
  await trx('apps')
    .whereIn('id', trx('workspace_apps').whereIn('workspace_id', workspaceIds).select('app_id'))
    .orderBy('id')
    .forNoKeyUpdate()
    .select('id')
}

interface DeployKeys {
  sealKeys: SealKeys
  masterKey: string
}

/**
 * Voids what those of `before` who may deploy no longer could still deploy with: repositories that they linked are unlinked, and
 * webhooks whose address they could see get a new address and secret. The owner is informed by mail. Resolves to the applications
 * whose sources have changed.
 */
export async function withdrawDeploys(
  trx: Db,
  { sealKeys, masterKey }: DeployKeys,
  actor: string,
  before: Deployer[],
): Promise<string[]> {
  const remaining = new Set((await stillDeploying(trx, before)).map(keyOf))
  const lost = before.filter(deployer => !remaining.has(keyOf(deployer)))
  const acts = [...(await unlink(trx, lost)), ...(await renew(trx, sealKeys, masterKey, lost))]
  if (acts.length > 0) await recordAndNotify(trx, actor, acts)
  return [...new Set(acts.map(({ appId }) => appId))]
}

const keyOf = ({ app_id, user_id }: Deployer): string => `${app_id} ${user_id}`

const deployersOf = (trx: Db) =>
  trx('workspace_apps as s')
    .join('workspace_members as m', 'm.workspace_id', 's.workspace_id')
    .join('users as u', 'u.id', 'm.user_id')
    .whereIn('m.role', deployingRoles)
    .whereNull('u.blocked_at')
    .select<Deployer[]>('s.app_id', 'm.user_id')

/** Those of the deployers that have the right now, in any workspace. */
const stillDeploying = (trx: Db, deployers: Deployer[]): Promise<Deployer[]> =>
  deployersOf(trx)
    .whereIn('s.app_id', idsOf(deployers))
    .whereIn('m.user_id', [...new Set(deployers.map(({ user_id }) => user_id))])

const idsOf = (deployers: Deployer[]): string[] => [...new Set(deployers.map(({ app_id }) => app_id))].sort()

interface Act {
  appId: string
  action: 'apps.unlink' | 'apps.webhook'
}

async function unlink(trx: Db, lost: Deployer[]): Promise<Act[]> {
  if (lost.length === 0) return []
  const removed: Deployer[] = await trx('git_links')
    .whereIn(
      ['app_id', 'user_id'],
      lost.map(({ app_id, user_id }) => [app_id, user_id]),
    )
    .delete()
    .returning(['app_id', 'user_id'])
  return removed.map(({ app_id }) => ({ appId: app_id, action: 'apps.unlink' }))
}

async function renew(trx: Db, keys: SealKeys, masterKey: string, lost: Deployer[]): Promise<Act[]> {
  const acts: Act[] = []
  for (const appId of idsOf(lost))
    if (await renewWebhook(trx, keys, appId, newWebhookAddress(masterKey))) acts.push({ appId, action: 'apps.webhook' })
  return acts
}

/** Records the acts under the account that removed the right, and mails the owners, whose pushes no longer arrive. */
async function recordAndNotify(trx: Db, actor: string, acts: Act[]): Promise<void> {
  const ids = [...new Set(acts.map(({ appId }) => appId))]
  const apps: { id: string; name: string; owner_id: string }[] = await trx('apps')
    .whereIn('id', ids)
    .orderBy('name')
    .select('id', 'name', 'owner_id')
  for (const accountId of new Set(apps.map(app => app.owner_id))) {
    const owned = apps.filter(app => app.owner_id === accountId)
    const ofOwner = acts.filter(({ appId }) => owned.some(({ id }) => id === appId))
    await trx('audit').insert(
      ofOwner.map(({ appId, action }) =>
        auditRow({ accountId, actor, action, resource: appId, result: 'success', operationId: null }),
      ),
    )
    const names = owned.map(({ name }) => name).join(', ')
    await queueMail(trx, { userId: accountId, template: 'deploys-withdrawn', fields: { apps: names } })
  }
  for (const id of ids) await announceSources(trx, id)
}
