import { z } from 'zod'
import {
  deleteWorkspace as deleteWorkspaceRow,
  findWorkspace,
  listWorkspaces as findWorkspacesOf,
  createWorkspace as insertWorkspace,
} from '../../../db/accounts/workspaces.ts'
import { roles } from '../../../policy/accounts/permissions.ts'
import { CodedError } from '../../../policy/errors.ts'
import { workspaceIdPattern } from '../../../policy/ids.ts'
import { languages } from '../../../policy/runtimes.ts'
import { auditWithin } from '../../pipeline/audit.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime, resourceName, workspaceId } from '../../pipeline/fields.ts'
import { idempotencyErrors, idempotent } from '../../pipeline/idempotent.ts'
import { workspaceView } from '../../views/workspace.ts'
import { changeMembers } from './workspace-changes.ts'

const text = z.string()

const workspace = z.object({
  id: text,
  name: text,
  owner: text,
  members: z.array(z.object({ id: text, name: text.nullable(), group: z.enum(roles), joinedAt: isoTime })),
  applications: z.array(
    z.object({
      id: text,
      name: text,
      desc: text.nullable(),
      ram: z.int(),
      lang: z.enum(languages),
      domain: text.nullable(),
      custom: text.nullable(),
    }),
  ),
  createdAt: isoTime,
})

/** Contract 8.1: the caller's own workspaces, and those that the caller has joined. */
export const listWorkspaces = endpoint({
  name: 'workspaces.list',
  method: 'GET',
  path: '/v2/workspaces',
  summary: 'List workspaces',
  auth: { scope: 'workspaces:manage' },
  response: z.array(workspace),
  async handle({ caller }, { db, config }) {
    const workspaces = await findWorkspacesOf(db, caller.user.id)
    return workspaces.map(workspace => workspaceView(workspace, caller, config.appsDomain))
  },
})

export const getWorkspace = endpoint({
  name: 'workspaces.find',
  method: 'GET',
  path: '/v2/workspaces/{workspaceId}',
  summary: 'Show a workspace',
  auth: { scope: 'workspaces:manage' },
  response: workspace,
  errors: ['WORKSPACE_NOT_FOUND'],
  async handle({ caller, exchange }, { db, config }) {
    const { workspaceId: id = '' } = exchange.path
    const workspace = workspaceIdPattern.test(id) ? await findWorkspace(db, caller.user.id, id) : undefined
    if (!workspace) throw new CodedError('WORKSPACE_NOT_FOUND')
    return workspaceView(workspace, caller, config.appsDomain)
  },
})

export const createWorkspace = endpoint({
  name: 'workspaces.create',
  method: 'POST',
  path: '/v2/workspaces',
  summary: 'Create a workspace',
  auth: { scope: 'workspaces:manage' },
  body: z.object({
    name: resourceName,
  }),
  response: z.object({ id: text, name: text }),
  errors: [
    ...idempotencyErrors,
    'INVALID_NAME',
    'WORKSPACE_LIMIT_REACHED',
    'WORKSPACE_CREATION_FAILED',
    'UPGRADE_REQUIRED',
  ],
  async handle(call, { db, plans }) {
    const { caller, body, exchange } = call
    const { id, name } = await idempotent(call, 'POST /v2/workspaces', db, async trx => {
      const created = await insertWorkspace(trx, plans, caller.user.id, body.name)
      exchange.resource = created.id
      await auditWithin(trx, 'workspaces.create', { caller }, exchange)
      return created
    })
    return { id, name }
  },
})

/** Only the owner may delete a workspace; its applications remain. */
export const deleteWorkspace = endpoint({
  name: 'workspaces.delete',
  method: 'DELETE',
  path: '/v2/workspaces',
  summary: 'Delete a workspace',
  auth: { scope: 'workspaces:manage' },
  body: z.object({ workspaceId }),
  errors: ['INVALID_ID', 'WORKSPACE_NOT_FOUND', 'PERMISSION_DENIED'],
  async handle({ caller, body, exchange }, services) {
    const { workspaceId } = body
    await changeMembers(services, { action: 'workspaces.delete', caller, exchange, workspaceId }, trx =>
      deleteWorkspaceRow(trx, caller.user.id, workspaceId),
    )
  },
})
