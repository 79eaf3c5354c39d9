import { shareApp } from '../../../db/accounts/workspace-apps.ts'
import { addMember, issueInvite } from '../../../db/accounts/workspace-members.ts'
import { createWorkspace, type WorkspaceRow } from '../../../db/accounts/workspaces.ts'
import { type Db, transaction } from '../../../db/database.ts'
import type { MemberRole } from '../../../policy/accounts/permissions.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'

interface Contents {
  name?: string
  members?: readonly (readonly [user: { id: string }, role: MemberRole])[]
  apps?: readonly { id: string }[]
}

/** A workspace as its owner would make it, written by the same functions. */
export async function makeWorkspace(
  db: Db,
  owner: { id: string },
  { name = 'team', members = [], apps = [] }: Contents = {},
): Promise<WorkspaceRow> {
  const workspace = await transaction(db, trx => createWorkspace(trx, defaultPlans, owner.id, name))
  for (const [user, role] of members) {
    const code = await issueInvite(db, user.id)
    await transaction(db, trx => addMember(trx, workspace, { code, role, max: 100 }))
  }
  for (const app of apps) await transaction(db, trx => shareApp(trx, workspace, app.id))
  return workspace
}
