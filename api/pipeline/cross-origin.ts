import type { IncomingMessage } from 'node:http'
import type { Reply } from '../http/respond.ts'
import type { Endpoint } from './endpoint.ts'

// Pages of other origins upload directly from the browser, with an upload token and without a cookie, so any origin is allowed.

/** On every answer of such an endpoint, refusals included. */
export const crossOriginHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'X-Request-Id, Retry-After, Idempotent-Replayed',
} as const

/** Answers preflight requests with the methods that pages may use on a path; undefined for every other request. */
export function preflights(endpoints: readonly Endpoint[]): (request: IncomingMessage) => Reply | undefined {
  const methods = new Map<string, string[]>()
  for (const { crossOrigin, path, method } of endpoints)
    if (crossOrigin) methods.set(path, [...(methods.get(path) ?? []), method])
  return ({ method, url = '' }) => {
    const allowed = method === 'OPTIONS' ? methods.get(url.split('?', 1)[0] as string) : undefined
    return allowed && { status: 204, headers: { ...crossOriginHeaders, ...permission(allowed) } }
  }
}

const permission = (methods: readonly string[]) => ({
  'Access-Control-Allow-Methods': methods.join(', '),
  'Access-Control-Allow-Headers': 'Authorization, Content-Type, Idempotency-Key',
  'Access-Control-Max-Age': '86400',
})
