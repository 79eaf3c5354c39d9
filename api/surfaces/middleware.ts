import type Koa from 'koa'
import { AddressSet, addressOf } from '../http/address.ts'
import { Exchange } from '../http/call.ts'
import { type Reply, send } from '../http/respond.ts'
import { linger } from '../http/server.ts'
import type { Endpoint } from '../pipeline/endpoint.ts'
import type { Log } from '../pipeline/core-services.ts'

/** What the middleware of a surface hands on. The last of the chain sets `reply`. */
export interface SurfaceState {
  exchange: Exchange
  /** What the router found; undefined = nothing, or a surface without routes. */
  endpoint?: Endpoint
  reply: Reply
}

export type Middleware = Koa.Middleware<SurfaceState>

/** Browsers that came by https do not come in clear text again for a year. */
export const transportSecurity: Middleware = ({ res }, next) => {
  res.setHeader('Strict-Transport-Security', 'max-age=31536000')
  return next()
}

/** Logs one line per command. The name of the route replaces its path, so that no secret of an address is logged. */
export function accessLog(log: Log): Middleware {
  return async ({ state, req }, next) => {
    await next()
    const { endpoint, exchange, reply } = state
    if (!endpoint || req.method === 'GET') return
    const { requestId, address, startedAt } = exchange
    const ms = Math.round(performance.now() - startedAt)
    log.info({ requestId, endpoint: endpoint.name, status: reply.status, address, ms }, 'command')
  }
}

/**
 * Creates the exchange of the request, with the address of the client behind our own proxies, and sends the reply. It writes to Node's
 * response itself, in place of Koa: what Koa would derive from a body is known already, and this is the hot path.
 */
export function exchanges(trustedProxies: readonly string[]): Middleware {
  const proxies = new AddressSet(trustedProxies)
  return async (ctx, next) => {
    ctx.respond = false
    const { req, res, state } = ctx
    const exchange = new Exchange(req, res, addressOf(req, proxies))
    state.exchange = exchange
    await next()
    send(res, state.reply, exchange.requestId)
    linger(req, res, exchange.startedAt)
  }
}

/** Replies to every request that no earlier middleware has replied to. `answer` must not reject. */
export function replies(answer: (exchange: Exchange, endpoint?: Endpoint) => Promise<Reply>): Middleware {
  return async ({ state }) => {
    state.reply = await answer(state.exchange, state.endpoint)
  }
}
