import { z } from 'zod'
import { shareApp, unshareApp } from '../../../db/accounts/workspace-apps.ts'
import { lockOwnWorkspace, type WorkspaceRow } from '../../../db/accounts/workspaces.ts'
import type { Db } from '../../../db/database.ts'
import { accessApp } from '../../pipeline/access.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { appId, workspaceId } from '../../pipeline/fields.ts'
import { idempotencyErrors, idempotent } from '../../pipeline/idempotent.ts'
import { changeMembers } from './workspace-changes.ts'

const body = z.object({ workspaceId, appId })
const errors = [
  'INVALID_ID',
  'WORKSPACE_NOT_FOUND',
  'APP_NOT_FOUND',
  'PERMISSION_DENIED',
  'RESOURCE_NOT_ALLOWED',
] as const

/** Contract 8.6: only for the owner of both. Members can access the application with their next request. */
export const shareAppWithWorkspace = endpoint({
  name: 'workspaces.apps.share',
  method: 'POST',
  path: '/v2/workspaces/applications',
  summary: 'Share an application in a workspace',
  auth: { scope: 'workspaces:manage' },
  body,
  errors: [...errors, ...idempotencyErrors, 'APP_ALREADY_IN_WORKSPACE', 'APPLICATIONS_LIMIT_REACHED'],
  async handle(call, { db }) {
    const { caller, body, exchange } = call
    exchange.resource = body.workspaceId
    await idempotent(call, 'POST /v2/workspaces/applications', db, async trx => {
      await shareApp(trx, ...(await ownBoth(trx, caller, body)))
      await auditWithin(trx, 'workspaces.apps.share', { caller }, exchange)
      return {}
    })
  },
})

export const unshareAppFromWorkspace = endpoint({
  name: 'workspaces.apps.unshare',
  method: 'DELETE',
  path: '/v2/workspaces/applications',
  summary: 'Stop sharing an application in a workspace',
  auth: { scope: 'workspaces:manage' },
  body,
  errors,
  async handle({ caller, body, exchange }, services) {
    const command = { action: 'workspaces.apps.unshare', caller, exchange, workspaceId: body.workspaceId }
    await changeMembers(services, command, async trx => unshareApp(trx, ...(await ownBoth(trx, caller, body))))
  },
})

async function ownBoth(
  trx: Db,
  caller: Caller,
  { workspaceId, appId }: z.output<typeof body>,
): Promise<[workspace: WorkspaceRow, appId: string]> {
  const workspace = await lockOwnWorkspace(trx, caller.user.id, workspaceId)
  const { app } = await accessApp(trx, caller, appId, 'share')
  return [workspace, app.id]
}
