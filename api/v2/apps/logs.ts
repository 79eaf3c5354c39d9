import { z } from 'zod'
import { CodedError } from '../../../policy/errors.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import { endpoint } from '../../pipeline/endpoint.ts'

/** Contract 4.13: stdout and stderr together, the newest 1 MB. */
export const getLogs = endpoint({
  name: 'apps.logs',
  method: 'GET',
  path: '/v2/apps/{appId}/logs',
  summary: 'Read the output of an application',
  auth: { scope: 'apps:read', permission: 'read' },
  response: z.object({ logs: z.string() }),
  errors: ['LOGS_UNAVAILABLE', 'CLUSTER_UNAVAILABLE', 'CLUSTER_TIMEOUT'],
  async handle({ app }, { hosts }) {
    const logs = await hosts.logs(app, requestCaps.logBytes)
    if (logs === null) throw new CodedError('LOGS_UNAVAILABLE')
    return { logs }
  },
})
