import { z } from 'zod'
import { findUser } from '../../../db/accounts/accounts.ts'
import { sharedAppIds } from '../../../db/accounts/workspace-apps.ts'
import {
  changeRole,
  removeMember as deleteMember,
  leaveWorkspace as deleteMembership,
  addMember as insertMember,
  issueInvite,
} from '../../../db/accounts/workspace-members.ts'
import { lockOwnWorkspace, type WorkspaceRow } from '../../../db/accounts/workspaces.ts'
import type { Db } from '../../../db/database.ts'
import { type MemberRole, mayGrant, memberRoles } from '../../../policy/accounts/permissions.ts'
import { type Plans, planOf } from '../../../policy/accounts/plans.ts'
import { CodedError } from '../../../policy/errors.ts'
import { coversResource } from '../../pipeline/access.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { userId, workspaceId } from '../../pipeline/fields.ts'
import { idempotencyErrors, idempotent } from '../../pipeline/idempotent.ts'
import { changeMembers } from './workspace-changes.ts'

const group = z
  .enum(memberRoles, { error: 'INVALID_GROUP' })
  .describe(
    'What the member may do. From `maintain` up a member may deploy code, which can read the variables and files of the application: grant it only to people you trust with them.',
  )
const code = z.string({ error: 'INVALID_CODE' }).regex(/^[a-f0-9]{32}$/, 'INVALID_CODE')

/** Contract 8.4: an account that wants to join gets a code here and gives it to the owner. */
export const createInviteCode = endpoint({
  name: 'workspaces.members.code',
  method: 'GET',
  path: '/v2/workspaces/members/code',
  summary: 'Get a code with which an owner can add the account to a workspace',
  auth: { scope: 'workspaces:manage' },
  changes: true,
  codeAlongside: true,
  response: z.object({ code: z.string() }),
  async handle({ caller, exchange }, { db }) {
    const record = (trx: Db) => auditWithin(trx, 'workspaces.members.code', { caller }, exchange)
    return { code: await issueInvite(db, caller.user.id, record) }
  },
})

export const addMember = endpoint({
  name: 'workspaces.members.add',
  method: 'POST',
  path: '/v2/workspaces/members',
  summary: 'Add a member to a workspace',
  auth: { scope: 'workspaces:manage' },
  body: z.object({ workspaceId, code, group }),
  errors: [
    ...idempotencyErrors,
    'INVALID_ID',
    'INVALID_CODE',
    'INVALID_GROUP',
    'CANNOT_INVITE_OWNER',
    'MEMBER_ALREADY_ADDED',
    'MEMBERS_LIMIT_REACHED',
    'SCOPE_NOT_GRANTABLE',
    'PERMISSION_DENIED',
    'WORKSPACE_NOT_FOUND',
  ],
  async handle(call, { db, plans }) {
    const { caller, body, exchange } = call
    exchange.resource = body.workspaceId
    await idempotent(call, 'POST /v2/workspaces/members', db, async trx => {
      const workspace = await grantable(trx, caller, body)
      await insertMember(trx, workspace, {
        code: body.code,
        role: body.group,
        max: await maxMembers(trx, plans, caller),
      })
      await auditWithin(trx, 'workspaces.members.add', { caller }, exchange)
      return {}
    })
  },
})

/** Read once the workspace is locked: a step to a lower plan waits for that lock, or is already applied. */
async function maxMembers(trx: Db, plans: Plans, { user }: Caller): Promise<number> {
  const owner = await findUser(trx, user.id)
  return planOf(plans, owner ?? user, new Date()).plan.workspaceMembers
}

export const changeMember = endpoint({
  name: 'workspaces.members.change',
  method: 'PATCH',
  path: '/v2/workspaces/members',
  summary: 'Change the role of a member',
  auth: { scope: 'workspaces:manage' },
  body: z.object({ workspaceId, memberId: userId, group }),
  errors: [
    'INVALID_ID',
    'INVALID_GROUP',
    'CANNOT_EDIT_OWNER',
    'SCOPE_NOT_GRANTABLE',
    'PERMISSION_DENIED',
    'WORKSPACE_NOT_FOUND',
    'MEMBER_NOT_FOUND',
  ],
  async handle({ caller, body, exchange }, services) {
    const command = { action: 'workspaces.members.change', caller, exchange, workspaceId: body.workspaceId }
    await changeMembers(services, command, async trx => {
      const workspace = await grantable(trx, caller, body)
      await changeRole(trx, { workspace, memberId: body.memberId }, body.group)
    })
  },
})

/**
 * The caller's workspace, locked, if the key may grant this role there: a limited key could otherwise give another account more than
 * it may do itself. Throws SCOPE_NOT_GRANTABLE.
 */
async function grantable(
  trx: Db,
  caller: Caller,
  { workspaceId, group }: { workspaceId: string; group: MemberRole },
): Promise<WorkspaceRow> {
  const workspace = await lockOwnWorkspace(trx, caller.user.id, workspaceId)
  const sharedIds = await sharedAppIds(trx, workspaceId)
  if (!mayGrant(caller.scopes, group) || !sharedIds.every(appId => coversResource(caller, appId)))
    throw new CodedError('SCOPE_NOT_GRANTABLE')
  return workspace
}

export const removeMember = endpoint({
  name: 'workspaces.members.remove',
  method: 'DELETE',
  path: '/v2/workspaces/members',
  summary: 'Remove a member from a workspace',
  auth: { scope: 'workspaces:manage' },
  body: z.object({ workspaceId, memberId: userId }),
  errors: ['INVALID_ID', 'CANNOT_EDIT_OWNER', 'PERMISSION_DENIED', 'WORKSPACE_NOT_FOUND', 'MEMBER_NOT_FOUND'],
  async handle({ caller, body, exchange }, services) {
    const command = { action: 'workspaces.members.remove', caller, exchange, workspaceId: body.workspaceId }
    await changeMembers(services, command, trx => deleteMember(trx, caller.user.id, body.workspaceId, body.memberId))
  },
})

export const leaveWorkspace = endpoint({
  name: 'workspaces.leave',
  method: 'DELETE',
  path: '/v2/workspaces/leave',
  summary: 'Leave a workspace',
  auth: { scope: 'workspaces:manage' },
  body: z.object({ workspaceId }),
  errors: ['INVALID_ID', 'CANNOT_LEAVE_OWNER', 'WORKSPACE_NOT_FOUND'],
  async handle({ caller, body, exchange }, services) {
    const command = { action: 'workspaces.leave', caller, exchange, workspaceId: body.workspaceId }
    await changeMembers(services, command, async trx => {
      exchange.resourceOwner = await deleteMembership(trx, caller.user.id, body.workspaceId)
    })
  },
})
