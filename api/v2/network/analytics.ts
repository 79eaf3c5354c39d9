import { z } from 'zod'
import { type Breakdown, breakdownNames } from '../../../policy/network/analytics-terms.ts'
import { filterFields } from '../../../policy/network/filters.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { beforeTheApp, cachedAt, networkAnswer, questionErrors, windowFields } from './network-answer.ts'

const entries = z.array(
  z.object({ type: z.string(), date: isoTime, visits: z.int(), requests: z.int(), bytes: z.int() }),
)
const breakdowns = Object.fromEntries(breakdownNames.map(name => [name, entries])) as Record<Breakdown, typeof entries>

/** The requests of an application in 14 breakdowns, all of them of the requests that pass every filter. */
export const getNetworkAnalytics = endpoint({
  name: 'apps.network.analytics',
  method: 'GET',
  path: '/v2/apps/{appId}/network/analytics',
  summary: 'Show the requests of an application by country, device, path and other breakdowns',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object({ ...windowFields, ...filterFields }),
  response: z.union([z.object({ ...breakdowns, cached_at: cachedAt }), beforeTheApp]),
  errors: [...questionErrors, 'INVALID_FILTER', 'UNABLE_TO_FETCH_ANALYTICS'],
  async handle({ app, query: { start, end, ...filters }, exchange }, services) {
    const details = { kind: 'analytics', filters } as const
    const failure = 'UNABLE_TO_FETCH_ANALYTICS'
    return networkAnswer({ app, window: { start, end }, exchange, details, failure }, services)
  },
})
