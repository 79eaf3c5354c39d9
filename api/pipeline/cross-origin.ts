import type { IncomingMessage } from 'node:http'
import type { Reply } from '../http/respond.ts'
import type { Endpoint } from './endpoint.ts'

// Pages of other origins upload straight from a browser, with an upload token and no cookie: any origin may.

/** What every answer of such an endpoint carries, refusals too. */
export const crossOriginHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'X-Request-Id, Retry-After, Idempotent-Replayed',
} as const

/** Answers a browser's question before a request, by the methods that pages may use on a path; undefined for every other request. */
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
