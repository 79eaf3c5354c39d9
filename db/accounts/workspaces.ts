import type { Role } from '../../policy/accounts/permissions.ts'
import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import { CodedError } from '../../policy/errors.ts'
import { newWorkspaceId } from '../../policy/ids.ts'
import type { AppRow } from '../apps/apps.ts'
import { type Db, transaction } from '../database.ts'
import type { UserRow } from './accounts.ts'

export interface WorkspaceRow {
  id: string
  owner_id: string
  name: string
  created_at: Date
}

interface MemberRow {
  workspace_id: string
  user_id: string
  name: string
  role: Role
  joined_at: Date
}

/** A workspace with its members, the owner first, and the applications that are shared there. */
export interface Workspace extends WorkspaceRow {
  members: MemberRow[]
  apps: AppRow[]
}

/**
 * Throws UPGRADE_REQUIRED and WORKSPACE_LIMIT_REACHED by the plan of its owner, WORKSPACE_CREATION_FAILED when the account is missing
 * or blocked by now. Serialized per account, so that concurrent requests cannot pass the plan.
 */
export async function createWorkspace(trx: Db, plans: Plans, ownerId: string, name: string): Promise<WorkspaceRow> {
  const owner: UserRow | undefined = await trx('users').where({ id: ownerId, blocked_at: null }).forUpdate().first()
  if (!owner) throw new CodedError('WORKSPACE_CREATION_FAILED')
  const { workspaces } = planOf(plans, owner, new Date()).plan
  if (workspaces === 0) throw new CodedError('UPGRADE_REQUIRED')
  const { count } = (await trx('workspaces').where({ owner_id: ownerId }).count().first()) ?? {}
  if (Number(count) >= workspaces) throw new CodedError('WORKSPACE_LIMIT_REACHED')
  const [row] = await trx('workspaces').insert({ id: newWorkspaceId(), owner_id: ownerId, name }).returning('*')
  return row
}

/** True for the workspaces `w` that an account owns or has joined. */
export const isInWorkspace = `(w.owner_id = :userId or exists (select from workspace_members m where m.workspace_id = w.id and m.user_id = :userId))`

/**
 * The workspace of `id`, locked until the transaction ends: changes of one workspace are serialized. Throws WORKSPACE_NOT_FOUND for
 * non-members, PERMISSION_DENIED for members.
 */
export async function lockOwnWorkspace(trx: Db, userId: string, id: string): Promise<WorkspaceRow> {
  const { rows } = await trx.raw(`select w.* from workspaces w where w.id = :id and ${isInWorkspace} for update`, {
    id,
    userId,
  })
  const row: WorkspaceRow | undefined = rows[0]
  if (!row) throw new CodedError('WORKSPACE_NOT_FOUND')
  if (row.owner_id !== userId) throw new CodedError('PERMISSION_DENIED')
  return row
}

/** Workspaces that an account owns or has joined, oldest first. */
export async function listWorkspaces(db: Db, userId: string): Promise<Workspace[]> {
  return withContents(
    db,
    (await db.raw(`select * from workspaces w where ${isInWorkspace} order by created_at, id`, { userId })).rows,
  )
}

/** Undefined when it is missing, or the account is not in it. */
export async function findWorkspace(db: Db, userId: string, id: string): Promise<Workspace | undefined> {
  const { rows } = await db.raw(`select * from workspaces w where id = :id and ${isInWorkspace}`, { id, userId })
  return (await withContents(db, rows))[0]
}

async function withContents(db: Db, workspaces: WorkspaceRow[]): Promise<Workspace[]> {
  const ids = workspaces.map(({ id }) => id)
  const members: MemberRow[] = (
    await db.raw(
      `select w.id as workspace_id, u.id as user_id, u.name, 'owner' as role, w.created_at as joined_at
         from workspaces w join users u on u.id = w.owner_id where w.id = any(:ids)
       union all
       select m.workspace_id, m.user_id, u.name, m.role, m.joined_at
         from workspace_members m join users u on u.id = m.user_id where m.workspace_id = any(:ids)
       order by joined_at, user_id`,
      { ids },
    )
  ).rows
  const apps: (AppRow & { workspace_id: string })[] = await db('workspace_apps')
    .join('apps', 'apps.id', 'workspace_apps.app_id')
    .whereIn('workspace_id', ids)
    .orderBy('shared_at')
    .select('workspace_id', 'apps.*')
  const isOf =
    ({ id }: WorkspaceRow) =>
    ({ workspace_id }: { workspace_id: string }) =>
      workspace_id === id
  return workspaces.map(row => ({ ...row, members: members.filter(isOf(row)), apps: apps.filter(isOf(row)) }))
}

/** Its applications stay with their owner; members lose them with the next request, and in open streams too. */
export async function deleteWorkspace(db: Db, userId: string, id: string): Promise<void> {
  await transaction(db, async trx => {
    await lockOwnWorkspace(trx, userId, id)
    await announceMembers(trx, id)
    await trx('workspaces').where({ id }).delete()
  })
}

/** On commit, open streams of all members of a workspace are checked again. */
export async function announceMembers(trx: Db, id: string): Promise<void> {
  await trx.raw(`select pg_notify('access', user_id) from workspace_members where workspace_id = ?`, [id])
}
