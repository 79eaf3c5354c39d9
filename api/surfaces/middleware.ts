import type Koa from 'koa'
import { AddressSet } from '../../lib/addresses.ts'
import { addressOf } from '../http/address.ts'
import { Exchange } from '../http/exchange.ts'
import { type Reply, send } from '../http/respond.ts'
import { linger } from '../http/server.ts'
import type { Log } from '../pipeline/core-services.ts'
import type { Endpoint } from '../pipeline/endpoint.ts'

/** What the middleware of a surface passes on. The last in the chain sets `reply`. */
export interface SurfaceState {
  exchange: Exchange
  /** The endpoint of the route; undefined when there is none, and on surfaces without routes. */
  endpoint?: Endpoint
  reply: Reply
}

export type Middleware = Koa.Middleware<SurfaceState>

/** Browsers that came by https do not use plain http again for a year. */
export const transportSecurity: Middleware = ({ res }, next) => {
  res.setHeader('Strict-Transport-Security', 'max-age=31536000')
  return next()
}

/** Logs one line per command, with the endpoint's name instead of the path, so that no secret in an address is logged. */
export function accessLog(log: Log): Middleware {
  return async ({ state, req }, next) => {
    await next()
    const { endpoint, exchange, reply } = state
    const command = endpoint && req.method !== 'GET' ? endpoint.name : exchange.command
    if (!command) return
    const { requestId, address, startedAt } = exchange
    const ms = Math.round(performance.now() - startedAt)
    log.info({ requestId, endpoint: command, status: reply.status, address, ms }, 'command')
  }
}

/**
 * Creates the exchange of the request, with the address of the client behind our own proxies, and sends the reply. It bypasses Koa and
 * writes to Node's response: what Koa would derive from a body is known already, and this is the hot path.
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
