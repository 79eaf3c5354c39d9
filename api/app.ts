import Koa from 'koa'
import { CodedError, type Wire } from '../policy/errors.ts'
import { answerFiles } from './files/files-surface.ts'
import { answerPublic } from './files/public-file.ts'
import { countryBlocked, failedText } from './files/text-answers.ts'
import type { Exchange } from './http/exchange.ts'
import { failure, type Reply } from './http/respond.ts'
import { preflights } from './pipeline/cross-origin.ts'
import type { Endpoint } from './pipeline/endpoint.ts'
import { blobApi, openApi } from './pipeline/openapi.ts'
import { serve } from './pipeline/serve.ts'
import { hostsOf } from './s3/addressing.ts'
import { answerS3 } from './s3/s3-surface.ts'
import type { Services } from './services.ts'
import {
  accessLog,
  exchanges,
  type Middleware,
  replies,
  type SurfaceState,
  transportSecurity,
} from './surfaces/middleware.ts'
import { routes } from './surfaces/routes.ts'
import { blobEndpoints } from './v1/endpoints.ts'
import { endpoints } from './v2/endpoints.ts'

type Surface = Koa<SurfaceState>

/** One listener per surface, in the order of the addresses in `Config.urls`. */
export interface Surfaces {
  base: Surface
  blob: Surface
  s3: Surface
  files: Surface
  public: Surface
}

/** The wire of the platform: which surface answers what. */
export function surfaces(services: Services): Surfaces {
  const { urls } = services.config
  const s3Hosts = hostsOf(services.config)
  return {
    base: jsonSurface(services, [...endpoints, openApi(endpoints, urls.base)]),
    blob: jsonSurface(services, [...blobEndpoints, openApi(blobEndpoints, urls.blob, blobApi)], 'blob'),
    s3: surface(services, urls.s3, [replies(exchange => answerS3(exchange, s3Hosts, services))]),
    files: textSurface(services, answerFiles, urls.files),
    public: textSurface(services, answerPublic, urls.public),
  }
}

/** An API over a list of endpoints. */
export function jsonSurface(services: Services, list: readonly Endpoint[], wire: Wire = 'management'): Surface {
  const unknown = (on: Wire) => failure(new CodedError('ROUTE_NOT_FOUND'), { wire: on })
  const preflight = preflights(list)
  const answer = async (exchange: Exchange, endpoint?: Endpoint) =>
    endpoint ? serve(endpoint, exchange, services) : (preflight(exchange.request) ?? unknown(wireOf(exchange, wire)))
  return surface(services, services.config.urls[wire === 'blob' ? 'blob' : 'base'], [routes(list), replies(answer)])
}

/** The wire of a request to a surface. The AI gateway lies on the surface of management, below a path of its own (contract 13.1). */
const wireOf = ({ request }: Exchange, wire: Wire): Wire =>
  wire === 'management' && /^\/v2\/ai(?:[/?]|$)/.test(request.url ?? '') ? 'ai' : wire

/** Files as such, for everyone who has their address, but not from a country that is blocked; refusals are text. */
function textSurface(
  services: Services,
  answer: (exchange: Exchange, services: Services) => Promise<Reply>,
  url: string,
): Surface {
  const given = (exchange: Exchange) =>
    answer(exchange, services).catch(thrown => failedText(thrown, exchange, services))
  const refused = Promise.resolve(countryBlocked)
  return surface(services, url, [
    replies(exchange => (services.isBlocked(exchange.address) ? refused : given(exchange))),
  ])
}

/** What every surface does around its own middleware; `url` is where clients reach it. */
function surface({ config, log }: Services, url: string, own: readonly Middleware[]): Surface {
  const app: Surface = new Koa<SurfaceState>()
  if (url.startsWith('https:')) app.use(transportSecurity)
  app.use(accessLog(log)).use(exchanges(config.trustedProxies))
  for (const middleware of own) app.use(middleware)
  // The access log and the pipeline have it: Koa would print it once more.
  app.on('error', () => {})
  return app
}
