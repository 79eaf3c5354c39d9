import Router from 'find-my-way'
import { KiB } from '../../lib/bytes.ts'
import type { Endpoint } from '../pipeline/endpoint.ts'
import type { Middleware } from './middleware.ts'

/** Finds the endpoint of a request by its method and path; passes on the decoded path and query parameters. */
export function routes(endpoints: readonly Endpoint[]): Middleware {
  const router = Router({ maxParamLength: 16 * KiB })
  for (const endpoint of endpoints)
    router.on(endpoint.method, endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'), () => {}, endpoint)
  return ({ req, state }, next) => {
    const route = router.find(req.method as Router.HTTPMethod, req.url ?? '/')
    if (route) {
      state.endpoint = route.store as Endpoint
      state.exchange.path = route.params
      state.exchange.search = route.searchParams
    }
    return next()
  }
}
