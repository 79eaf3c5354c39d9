import { z } from 'zod'
import { listDeployments as findDeployments } from '../../../db/deploys/deployment-history.ts'
import { listDeliveries as findDeliveries } from '../../../db/git/deliveries.ts'
import { permits } from '../../../policy/accounts/permissions.ts'
import { covers } from '../../../policy/accounts/scopes.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime, pageLimit } from '../../pipeline/fields.ts'
import { deliveryView, deploymentView } from '../../views/deployment.ts'
import { webhookUrl } from '../git/deploy-webhook.ts'

const text = z.string()
const files = z.array(text)

const deployEvent = z.object({
  id: text,
  deployment_id: text,
  operation_id: text,
  state: z.enum(['pending', 'clone', 'commit', 'restarting', 'success', 'error']),
  date: isoTime,
  source: z.enum(['git', 'upload']),
  branch: text.optional(),
  files: z.object({ added: files, removed: files, modified: files }).optional(),
  code: text.optional(),
  message: text.optional(),
  superseded_by: text.optional(),
  position: z.int().optional(),
  waiting_for: text.optional(),
})

/** Contract 6.2: one inner array per deploy, newest deploy first, its events oldest first. */
export const listDeployments = endpoint({
  name: 'apps.deployments',
  method: 'GET',
  path: '/v2/apps/{appId}/deployments',
  summary: 'List deployments',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object({
    limit: pageLimit(10),
    cursor: z
      .string()
      .regex(/^[0-9a-f]{32}$/)
      .optional()
      .meta({ description: 'The deployment_id of the last deployment seen; older ones follow.' }),
  }),
  response: z.array(z.array(deployEvent)),
  async handle({ app, query }, { db }) {
    return (await findDeployments(db, app.id, { limit: query.limit, after: query.cursor })).map(deploymentView)
  },
})

/** Contract 6.4: roles from manager up see the link; only admin and owner see the webhook's address, with which anyone can deploy. */
export const getCurrentDeployment = endpoint({
  name: 'apps.deployments.current',
  method: 'GET',
  path: '/v2/apps/{appId}/deployments/current',
  summary: 'Show the repository and webhook that an application is deployed from',
  auth: { scope: 'apps:read', permission: 'view_deployment' },
  response: z.object({
    app: z.object({ id: z.int(), name: text, branch: text }).optional(),
    webhook: text.optional(),
  }),
  async handle({ app, role, caller }, { config, sources }) {
    const { link, webhookAddress } = await sources.of(app.id)
    const shown = webhookAddress !== null && permits(role, 'deploy_webhook') && covers(caller.scopes, 'apps:deploy')
    return {
      app: link ? { id: link.repositoryId, name: link.fullName, branch: link.branch } : undefined,
      webhook: shown ? webhookUrl(config.urls.base, webhookAddress) : undefined,
    }
  },
})

/** Contract 6.12: the deliveries of git providers, with the replies that they got. */
export const listDeliveries = endpoint({
  name: 'apps.deliveries',
  method: 'GET',
  path: '/v2/apps/{appId}/webhook-deliveries',
  summary: 'List the webhook deliveries of git providers',
  auth: { scope: 'apps:read', permission: 'read' },
  response: z.array(
    z.object({
      id: text,
      delivery_id: text,
      provider: text,
      event: text,
      branch: text.nullable(),
      commit: text.nullable(),
      received_at: isoTime,
      verdict: z.enum(['queued', 'superseded', 'ignored', 'refused']),
      reply: z.object({ status: z.int(), text }),
      deployment_id: text.nullable(),
      superseded_by: text.nullable(),
    }),
  ),
  async handle({ app }, { db }) {
    return (await findDeliveries(db, app.id)).map(deliveryView)
  },
})
