import { z } from 'zod'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { logEntryView } from '../../views/log-entry.ts'
import { demandNetworkDetails, networkAnswer, questionErrors, windowFields } from './network-answer.ts'

const text = z.string().nullable()
const client = { ip: text, country: text, location: text, asn: z.string(), agent: text, category: text }
const request = {
  mitigated: z.boolean(),
  method: z.string(),
  host: z.string(),
  path: z.string(),
  query: text,
  protocol: z.string(),
  referer: text,
}
const response = { status: z.int(), contentType: text, cache: text }

/** The newest requests, one entry each. */
export const getNetworkLogs = endpoint({
  name: 'apps.network.logs',
  method: 'GET',
  path: '/v2/apps/{appId}/network/logs',
  summary: 'List the newest requests of an application',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object(windowFields),
  response: z.array(
    z.object({
      timestamp: isoTime,
      client: z.object(client),
      request: z.object(request),
      response: z.object(response),
      ...client,
      ...request,
      ...response,
    }),
  ),
  errors: [...questionErrors, 'UPGRADE_REQUIRED', 'UNABLE_TO_FETCH_ANALYTICS'],
  async handle({ app, query: window, exchange }, services) {
    await demandNetworkDetails(app, services)
    const details = { kind: 'logs' } as const
    const failure = 'UNABLE_TO_FETCH_ANALYTICS'
    const view = (lines: Parameters<typeof logEntryView>[0][]) => lines.map(logEntryView)
    return networkAnswer({ app, window, exchange, details, failure, view }, services)
  },
})
