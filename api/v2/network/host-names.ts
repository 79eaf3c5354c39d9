import { z } from 'zod'
import { listBalancerMembers, listHostNames } from '../../../db/domains/domain-lists.ts'
import { coversResource } from '../../pipeline/access.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** Contract 4.29: of the caller's own web applications, custom names first. */
export const listAppDomains = endpoint({
  name: 'apps.domains',
  method: 'GET',
  path: '/v2/apps/domains',
  summary: 'List the host names of all applications',
  auth: { scope: 'apps:read' },
  response: z.array(z.object({ app_id: z.string(), hostname: z.string(), type: z.enum(['custom', 'subdomain']) })),
  async handle({ caller }, { db, config }) {
    const apps = (await listHostNames(db, caller.user.id)).filter(({ id }) => coversResource(caller, id))
    return [
      ...apps.flatMap(({ id, custom_domain }) =>
        custom_domain ? [{ app_id: id, hostname: custom_domain, type: 'custom' as const }] : [],
      ),
      ...apps.map(({ id, subdomain }) => {
        const hostname = `${subdomain}.${config.appsDomain}`
        return { app_id: id, hostname, type: 'subdomain' as const }
      }),
    ]
  },
})

/** Contract 4.30: a load balancer is a custom domain that two or more applications of one account have. */
export const listLoadBalancers = endpoint({
  name: 'apps.load-balancers',
  method: 'GET',
  path: '/v2/apps/load-balancers',
  summary: 'List the load balancers of the account',
  auth: { scope: 'apps:read' },
  response: z.object({
    limit: z.int(),
    balancers: z.array(
      z.object({
        hostname: z.string(),
        apps: z.array(z.object({ id: z.string(), name: z.string(), cluster: z.string().optional() })),
      }),
    ),
  }),
  async handle({ caller }, { db }) {
    const groups = new Map<string, { id: string; name: string; cluster: string }[]>()
    for (const { hostname, id, name, host_id: cluster } of await listBalancerMembers(db, caller.user.id))
      if (coversResource(caller, id)) groups.set(hostname, [...(groups.get(hostname) ?? []), { id, name, cluster }])
    return {
      limit: caller.plan.balancerGroups,
      balancers: [...groups].map(([hostname, apps]) => ({ hostname, apps })),
    }
  },
})
