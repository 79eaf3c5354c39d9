import { type Role, roles } from '../../policy/accounts/permissions.ts'
import { CodedError } from '../../policy/errors.ts'
import { workspaceApplications } from '../../policy/limits.ts'
import { type AppRow, appColumns } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { announceMembers, type WorkspaceRow } from './workspaces.ts'

/** The role of one account in one workspace or any; of several roles the one that permits most. */
const shared = statement<AppRow & { role: Role }>(
  'workspace-apps.shared',
  `select ${appColumns}, case when owner_id = $2 then 'owner' else role end as role
     from workspace_apps s
     join apps on id = s.app_id
     left join workspace_members m on m.workspace_id = s.workspace_id and m.user_id = $2
    where s.app_id = $1 and ($3::text is null or s.workspace_id = $3) and (owner_id = $2 or role is not null)
    order by array_position(array[${roles.map(role => `'${role}'`)}], role) desc
    limit 1`,
)

/** An application that the account reaches through the given workspace, or any, with its role there. */
export async function findSharedApp(
  db: Db,
  userId: string,
  appId: string,
  workspaceId: string | null,
): Promise<{ app: AppRow; role: Role } | undefined> {
  const [row] = await shared(db, [appId, userId, workspaceId])
  if (!row) return undefined
  const { role, ...app } = row
  return { app, role }
}

/**
 * Shares an application of the owner in a workspace that the caller has locked. Throws APP_NOT_FOUND, APP_ALREADY_IN_WORKSPACE,
 * APPLICATIONS_LIMIT_REACHED.
 */
export async function shareApp(trx: Db, { id, owner_id }: WorkspaceRow, appId: string): Promise<void> {
  // A concurrent deletion waits, or is waited for.
  if (!(await trx('apps').where({ id: appId, owner_id }).forKeyShare().first('id')))
    throw new CodedError('APP_NOT_FOUND')
  const sharedIds = await sharedAppIds(trx, id)
  if (sharedIds.includes(appId)) throw new CodedError('APP_ALREADY_IN_WORKSPACE')
  if (sharedIds.length >= workspaceApplications) throw new CodedError('APPLICATIONS_LIMIT_REACHED')
  await trx('workspace_apps').insert({ workspace_id: id, app_id: appId })
}

export async function sharedAppIds(db: Db, workspaceId: string): Promise<string[]> {
  const rows: { app_id: string }[] = await db('workspace_apps').where({ workspace_id: workspaceId }).select('app_id')
  return rows.map(row => row.app_id)
}

/** Members lose it with their next request. Throws APP_NOT_FOUND when it is not shared there. */
export async function unshareApp(trx: Db, { id }: WorkspaceRow, appId: string): Promise<void> {
  const deletedRows = await trx('workspace_apps').where({ workspace_id: id, app_id: appId }).delete()
  if (deletedRows === 0) throw new CodedError('APP_NOT_FOUND')
  await announceMembers(trx, id)
}
