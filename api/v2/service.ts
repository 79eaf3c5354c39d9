import { plainJson } from '../http/respond.ts'
import { endpoint } from '../pipeline/endpoint.ts'

/** Contract 8.7: the platform's report about its own components. Public, without envelope. */
export const getServiceStatus = endpoint({
  name: 'service.status',
  method: 'GET',
  path: '/v2/service/status',
  summary: 'Show the status of the platform',
  auth: 'public',
  envelope: false,
  async handle(_, { service }) {
    return plainJson(await service.current(), { 'Cache-Control': 'no-cache' })
  },
})
