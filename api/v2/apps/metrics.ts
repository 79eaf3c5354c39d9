import { listMetrics } from '../../../db/apps/app-metrics.ts'
import { metricRules } from '../../../policy/apps/metrics.ts'
import { CodedError } from '../../../policy/errors.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { metricView } from '../../views/metrics.ts'
import { metricPoints } from '../schemas.ts'

/** Contract 4.14: points of 5 minutes, newest first. */
export const getMetrics = endpoint({
  name: 'apps.metrics',
  method: 'GET',
  path: '/v2/apps/{appId}/metrics',
  summary: 'Show the resource usage of an application in the last 24 hours',
  auth: { scope: 'apps:read', permission: 'read' },
  response: metricPoints,
  errors: ['METRICS_NOT_SUPPORTED'],
  async handle({ app }, { db, metrics }) {
    if (app.ram_mb < metricRules.fromMemoryMb) throw new CodedError('METRICS_NOT_SUPPORTED')
    return (await metrics.of(app.id, () => listMetrics(db, app.id))).map(metricView)
  },
})
