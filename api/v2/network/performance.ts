import { z } from 'zod'
import type { Answers } from '../../../activities/analytics/port.ts'
import type { EdgePlace } from '../../../policy/installation/edge-place.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'
import {
  beforeTheApp,
  cachedAt,
  demandNetworkDetails,
  networkAnswer,
  questionErrors,
  windowFields,
} from './network-answer.ts'

const percentiles = z.object({ p50: z.int(), p95: z.int(), p99: z.int() })
const place = { type: z.string(), p50: z.int(), p95: z.int(), requests: z.int() }

const latencies = z.object({
  summary: z.object({ edge: percentiles, origin: percentiles, requests: z.int() }),
  timeseries: z.array(z.object({ date: isoTime, requests: z.int(), edge: percentiles, origin: percentiles })),
  countries: z.array(z.object(place)),
  colos: z.array(z.object({ ...place, city: z.string().nullable(), country: z.string().nullable() })),
  slowest_paths: z.array(z.object({ path: z.string(), p95: z.int(), p99: z.int(), requests: z.int() })),
  cached_at: cachedAt,
})

/** Whole milliseconds until the first byte: to the visitor (edge), and from the application (origin). */
export const getNetworkPerformance = endpoint({
  name: 'apps.network.performance',
  method: 'GET',
  path: '/v2/apps/{appId}/network/performance',
  summary: 'Show how fast an application answers',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object(windowFields),
  response: z.union([latencies, beforeTheApp]),
  errors: [...questionErrors, 'UPGRADE_REQUIRED', 'UNABLE_TO_FETCH_PERFORMANCE'],
  async handle({ app, query: window, exchange }, services) {
    await demandNetworkDetails(app, services)
    const details = { kind: 'performance' } as const
    const view = locatedIn(services.config.edge.place)
    return networkAnswer({ app, window, exchange, details, failure: 'UNABLE_TO_FETCH_PERFORMANCE', view }, services)
  },
})

/** Adds its configured location to the proxy `name`. */
const locatedIn =
  ({ name, location }: EdgePlace) =>
  ({ colos, ...answer }: Answers['performance']) => ({
    ...answer,
    colos: colos.map(colo => ({ ...colo, ...(colo.type === name && location) })),
  })
