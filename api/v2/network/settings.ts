import { z } from 'zod'
import { changeAppSettings, readAppSettings } from '../../../db/domains/app-settings.ts'
import { canonicalNetwork } from '../../../lib/addresses.ts'
import { CodedError } from '../../../policy/errors.ts'
import { appSettingsBounds as bounds } from '../../../policy/network/app-settings.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { optional } from '../../pipeline/fields.ts'
import { hostName } from '../../views/app.ts'
import { everyEdgeHas } from './edge-acknowledgement.ts'

const settings = z.object({
  min_tls: z.enum(['1.2', '1.3']),
  hsts: z.object({ enabled: z.boolean(), max_age: z.number().int(), include_subdomains: z.boolean() }),
  requests_per_minute: z.number().int(),
  blocked_networks: z.array(z.string()),
  maintenance: z.boolean(),
  maintenance_page: z.string(),
  error_page: z.string(),
})

/** Contract 4.38: what the proxy does with requests to an application. */
export const getNetworkSettings = endpoint({
  name: 'apps.network.settings',
  method: 'GET',
  path: '/v2/apps/{appId}/network/settings',
  summary: 'Show the network settings of an application',
  auth: { scope: 'apps:read', permission: 'dns' },
  response: settings,
  handle: ({ app }, { db }) => readAppSettings(db, app.id),
})

const page = z.string().refine(html => Buffer.byteLength(html) <= bounds.pageBytes, `at most ${bounds.pageBytes} bytes`)

const network = z.string().transform((text, context) => {
  const canonical = canonicalNetwork(text)
  if (canonical) return canonical
  context.addIssue({ code: 'custom', message: 'an address, or a network as in 203.0.113.0/24' })
  return z.NEVER
})

const networks = z
  .array(network)
  .max(bounds.networks)
  .transform(all => [...new Set(all)])

/** Contract 4.38: changes the settings that are sent, and answers once every proxy has them. */
export const updateNetworkSettings = endpoint({
  name: 'apps.network.settings.update',
  method: 'PATCH',
  path: '/v2/apps/{appId}/network/settings',
  summary: 'Change the network settings of an application',
  auth: { scope: 'apps:write', permission: 'custom_domain' },
  body: z.object({
    min_tls: optional(z.enum(['1.2', '1.3'])),
    hsts: optional(
      z.object({
        enabled: optional(z.boolean()),
        max_age: optional(z.number().int().min(0).max(bounds.hstsSeconds)),
        include_subdomains: optional(z.boolean()),
      }),
    ),
    requests_per_minute: optional(z.number().int().min(0).max(bounds.requestsPerMinute)),
    blocked_networks: optional(networks),
    maintenance: optional(z.boolean()),
    maintenance_page: optional(page),
    error_page: optional(page),
  }),
  response: settings.extend({ applied: z.boolean() }),
  errors: ['NO_UPDATE_DATA'],
  async handle({ app, body, exchange }, { db, config }) {
    if (Object.values(body).every(value => value === undefined))
      throw new CodedError('NO_UPDATE_DATA', 'Send at least one setting.')
    const changed = await changeAppSettings(db, app, body)
    exchange.changedNothing = !changed.changed
    const awaited = { transaction: changed.transaction, host: hostName(app, config.appsDomain) }
    return { ...changed.settings, applied: await everyEdgeHas(db, awaited, exchange.signal) }
  },
})
