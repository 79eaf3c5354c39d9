import { catalogued } from '../../policy/errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Reply, streamed, toApiError } from '../http/respond.ts'
import type { Services } from '../services.ts'

/** An answer for people and for programs that read no JSON, which no cache keeps. */
export const text = (status: number, body: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...headers },
  body,
})

/** Whatever is wrong with an address, the answer is the same. */
export const notFound = text(404, 'Not found\n')

/** Said before anything is looked at. */
export const countryBlocked = text(403, `${catalogued('COUNTRY_BLOCKED', 'blob')[1]}\n`)

/** Whether a request reads; the surfaces that only give answer nothing else. */
export const reads = ({ request }: Exchange): boolean => request.method === 'GET' || request.method === 'HEAD'

/** What was thrown on the way, as text; a torn body must not look whole, so that its connection ends. */
export function failedText(thrown: unknown, { response, requestId }: Exchange, { log }: Services): Reply {
  const { status, message, retryAfterSeconds = 5 } = toApiError(thrown)
  if (status >= 500) log.error({ err: thrown, requestId }, 'a file could not be sent')
  if (!response.headersSent) return text(status, `${message}\n`, { 'Retry-After': String(retryAfterSeconds) })
  response.destroy()
  return streamed
}
