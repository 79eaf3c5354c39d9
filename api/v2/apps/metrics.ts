import { z } from 'zod'
import { listMetrics } from '../../../db/apps/app-metrics.ts'
import { type MetricPoint, metricRules } from '../../../policy/apps/metrics.ts'
import { ApiError } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { isoTime } from '../../pipeline/fields.ts'

/** Contract 4.14: points of 5 minutes, newest first. */
export const getMetrics = endpoint({
  name: 'apps.metrics',
  method: 'GET',
  path: '/v2/apps/{appId}/metrics',
  summary: 'Show the resource usage of an application in the last 24 hours',
  auth: { scope: 'apps:read', permission: 'read' },
  response: z
    .array(z.object({ date: isoTime, cpu: z.number(), ram: z.number(), net: z.array(z.int()).length(2) }))
    .max(metricRules.maxPoints),
  errors: ['METRICS_NOT_SUPPORTED'],
  async handle({ app }, { db, metrics }) {
    if (app.ram_mb < metricRules.fromMemoryMb) throw new ApiError('METRICS_NOT_SUPPORTED')
    return (await metrics.of(app.id, () => listMetrics(db, app.id))).map(metricView)
  },
})

/** CPU in percent of one core, memory in MB, network in bytes as [in, out]. */
const metricView = ({ at, cpu, ram, netIn, netOut }: MetricPoint) => ({
  date: at.toISOString(),
  cpu: Math.round(cpu * 100) / 100,
  ram: Math.round(ram * 10) / 10,
  net: [netIn, netOut],
})
