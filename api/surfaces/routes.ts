import Router from 'find-my-way'
import { KiB } from '../../lib/bytes.ts'
import type { Endpoint } from '../pipeline/endpoint.ts'
import type { Middleware } from './middleware.ts'

/** Finds the endpoint of a request by its method and path; hands on the decoded parts of the path and the query. */
export function routes(endpoints: readonly Endpoint[]): Middleware {
  const router = Router({ maxParamLength: 16 * KiB })
  for (const endpoint of endpoints)
    router.on(endpoint.method, endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'), () => {}, endpoint)
  return ({ req, state }, next) => {
    const found = router.find(req.method as Router.HTTPMethod, req.url ?? '/')
    if (found) {
      state.endpoint = found.store as Endpoint
      state.exchange.path = found.params
      state.exchange.search = found.searchParams
    }
    return next()
  }
}
