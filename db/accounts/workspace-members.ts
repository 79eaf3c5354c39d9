import { credentialHash } from '../../policy/accounts/credentials.ts'
import type { MemberRole } from '../../policy/accounts/permissions.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { inviteCodeSeconds } from '../../policy/limits.ts'
import { type Db, transaction } from '../database.ts'
import { announceAccess } from './accounts.ts'
import { lockOwnWorkspace, type WorkspaceRow } from './workspaces.ts'

/**
 * A code of 32 hex characters with which an owner may add this account, once, within 5 minutes. It replaces an earlier one. `record` is a part of
 * the transaction.
 */
export async function issueInvite(
  db: Db,
  userId: string,
  record = async (_: Db): Promise<void> => {},
): Promise<string> {
  const code = newId()
  await transaction(db, async trx => {
    await trx.raw(
      `insert into workspace_invites (user_id, hash, expires_at) values (:userId, :hash, now() + make_interval(secs => :seconds))
       on conflict (user_id) do update set hash = excluded.hash, expires_at = excluded.expires_at`,
      { userId, hash: credentialHash(code), seconds: inviteCodeSeconds },
    )
    await record(trx)
  })
  return code
}

/**
 * Adds the account of a code to a workspace that the caller has locked, and spends the code; a refusal does not. `max` counts the owner.
 * Throws INVALID_CODE, CANNOT_INVITE_OWNER, MEMBER_ALREADY_ADDED, MEMBERS_LIMIT_REACHED.
 */
export async function addMember(
  trx: Db,
  { id, owner_id }: WorkspaceRow,
  { code, role, max }: { code: string; role: MemberRole; max: number },
): Promise<void> {
  const [invite] = await trx('workspace_invites')
    .where({ hash: credentialHash(code) })
    .where('expires_at', '>', trx.fn.now())
    .delete(['user_id'])
  if (!invite) throw new CodedError('INVALID_CODE')
  if (invite.user_id === owner_id) throw new CodedError('CANNOT_INVITE_OWNER')
  const members: { user_id: string }[] = await trx('workspace_members').where({ workspace_id: id }).select('user_id')
  if (members.some(({ user_id }) => user_id === invite.user_id)) throw new CodedError('MEMBER_ALREADY_ADDED')
  if (members.length + 1 >= max) throw new CodedError('MEMBERS_LIMIT_REACHED')
  await trx('workspace_members').insert({ workspace_id: id, user_id: invite.user_id, role })
}

interface Membership {
  workspace: WorkspaceRow
  memberId: string
}

/** Takes effect with the member's next request. Throws CANNOT_EDIT_OWNER, MEMBER_NOT_FOUND. */
export async function changeRole(trx: Db, membership: Membership, role: MemberRole): Promise<void> {
  assertFound(await rowOf(trx, membership).update({ role }))
  await announceAccess(trx, membership.memberId)
}

/** As `changeRole`: the member loses what was shared. */
export async function removeMember(db: Db, ownerId: string, workspaceId: string, memberId: string): Promise<void> {
  await transaction(db, async trx => {
    const workspace = await lockOwnWorkspace(trx, ownerId, workspaceId)
    assertFound(await rowOf(trx, { workspace, memberId }).delete())
    await announceAccess(trx, memberId)
  })
}

function rowOf(trx: Db, { workspace, memberId }: Membership) {
  if (memberId === workspace.owner_id) throw new CodedError('CANNOT_EDIT_OWNER')
  return trx('workspace_members').where({ workspace_id: workspace.id, user_id: memberId })
}

function assertFound(changed: number): void {
  if (changed === 0) throw new CodedError('MEMBER_NOT_FOUND')
}

/** Resolves to the id of its owner. Throws CANNOT_LEAVE_OWNER, and WORKSPACE_NOT_FOUND for non-members. */
export async function leaveWorkspace(db: Db, userId: string, id: string): Promise<string> {
  return transaction(db, async trx => {
    const left = await trx('workspace_members').where({ workspace_id: id, user_id: userId }).delete()
    const workspace = await trx('workspaces').where({ id }).first('owner_id')
    if (left === 0) throw new CodedError(workspace?.owner_id === userId ? 'CANNOT_LEAVE_OWNER' : 'WORKSPACE_NOT_FOUND')
    await announceAccess(trx, userId)
    return workspace.owner_id
  })
}
