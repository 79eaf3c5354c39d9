import { z } from 'zod'
import { changeNetworkSettings, readNetworkSettings } from '../../../db/apps/network-settings.ts'
import {
  canonicalNetwork,
  changedSettings,
  type NetworkSettings,
  networkSettingLimits,
} from '../../../policy/domains/network-settings.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

const { maxHstsSeconds, maxNetworks, maxPageBytes, maxRequestsPerMinute } = networkSettingLimits

const network = z.string().transform((text, context) => {
  const canonical = canonicalNetwork(text)
  if (canonical !== null) return canonical
  context.addIssue({ code: 'custom', message: 'must be an address or a network, such as 192.0.2.0/24' })
  return z.NEVER
})
const page = z
  .string()
  .min(1)
  .refine(text => Buffer.byteLength(text) <= maxPageBytes, `must be at most ${maxPageBytes} bytes`)

const fields = {
  min_tls: z.enum(['1.2', '1.3']),
  hsts_seconds: z.int().min(1).max(maxHstsSeconds),
  requests_per_minute: z.int().min(1).max(maxRequestsPerMinute),
  blocked_networks: z.array(network).min(1).max(maxNetworks),
  maintenance: z.boolean(),
  maintenance_page: page,
  error_page: page,
}

const response = z.object({
  min_tls: z.enum(['1.2', '1.3']),
  hsts_seconds: z.int().nullable(),
  requests_per_minute: z.int().nullable(),
  blocked_networks: z.array(z.string()),
  maintenance: z.boolean(),
  maintenance_page: z.string().nullable(),
  error_page: z.string().nullable(),
})

const path = '/v2/apps/{appId}/network/settings'

/** Contract 4.32. */
export const getNetworkSettings = endpoint({
  name: 'apps.network.settings',
  method: 'GET',
  path,
  summary: 'Show what the proxy does with requests to an application',
  auth: { scope: 'apps:read', permission: 'read' },
  response,
  async handle({ app }, { db }) {
    return settingsView(await readNetworkSettings(db, app.id))
  },
})

/** Contract 4.32: fields that are left out stay; null takes one off. */
export const changeNetworkSettingsOfApp = endpoint({
  name: 'apps.network.settings.change',
  method: 'PATCH',
  path,
  summary: 'Change what the proxy does with requests to an application',
  auth: { scope: 'apps:write', permission: 'custom_domain' },
  body: z.object({
    min_tls: fields.min_tls.nullish(),
    hsts_seconds: fields.hsts_seconds.nullish(),
    requests_per_minute: fields.requests_per_minute.nullish(),
    blocked_networks: fields.blocked_networks.nullish(),
    maintenance: fields.maintenance.nullish(),
    maintenance_page: fields.maintenance_page.nullish(),
    error_page: fields.error_page.nullish(),
  }),
  response,
  async handle({ app, body }, { db }) {
    return settingsView(await changeNetworkSettings(db, app.id, before => changedSettings(before, body)))
  },
})

const settingsView = (settings: NetworkSettings) => ({
  min_tls: settings.min_tls ?? ('1.2' as const),
  hsts_seconds: settings.hsts_seconds ?? null,
  requests_per_minute: settings.requests_per_minute ?? null,
  blocked_networks: settings.blocked_networks ?? [],
  maintenance: settings.maintenance ?? false,
  maintenance_page: settings.maintenance_page ?? null,
  error_page: settings.error_page ?? null,
})
