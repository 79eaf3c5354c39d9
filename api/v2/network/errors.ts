import { z } from 'zod'
import { endpoint } from '../../pipeline/endpoint.ts'
import { flag, isoTime } from '../../pipeline/fields.ts'
import { beforeTheApp, cachedAt, networkAnswer, questionErrors, windowFields } from './network-answer.ts'

const byStatus = z.record(z.string(), z.int())

const errorsOfApp = z.object({
  summary: z.object({ total: z.int(), by_class: z.object({ '4xx': z.int(), '5xx': z.int() }) }),
  by_status: z.array(z.object({ status: z.int(), requests: z.int(), total: z.int() })),
  timeseries: z.array(z.object({ date: isoTime, buckets: byStatus, total: z.int() })),
  top_paths: z.array(z.object({ path: z.string(), method: z.string(), total: z.int(), by_status: byStatus })),
  by_method: z.array(z.object({ method: z.string(), total: z.int(), by_status: byStatus })),
  cached_at: cachedAt,
})

/** Requests that ended with an error. */
export const getNetworkErrors = endpoint({
  name: 'apps.network.errors',
  method: 'GET',
  path: '/v2/apps/{appId}/network/errors',
  summary: 'Show which requests of an application ended with an error',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object({ ...windowFields, include_4xx: flag }),
  response: z.union([errorsOfApp, beforeTheApp]),
  errors: [...questionErrors, 'UNABLE_TO_FETCH_ERRORS'],
  async handle({ app, query: { include_4xx: include4xx, ...window }, exchange }, services) {
    const details = { kind: 'errors', include4xx } as const
    return networkAnswer({ app, window, exchange, details, failure: 'UNABLE_TO_FETCH_ERRORS' }, services)
  },
})
