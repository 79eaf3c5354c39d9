import { catalogueEntry } from '../../policy/errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Reply, streamed, toCodedError } from '../http/respond.ts'
import type { Services } from '../services.ts'

/** A plain text answer, which caches must not store. */
export const text = (status: number, body: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...headers },
  body,
})

/** The one answer to every wrong address. */
export const notFound = text(404, 'Not found\n')

/** Answered before anything is looked up. */
export const countryBlocked = text(403, `${catalogueEntry('COUNTRY_BLOCKED', 'blob')[1]}\n`)

/** Whether a request reads; the surfaces for files answer nothing else, except the password form of a share. */
export const reads = ({ request }: Exchange): boolean => request.method === 'GET' || request.method === 'HEAD'

/** An error as text. Once the body has started the connection is closed instead, so that a broken body does not look complete. */
export function failedText(thrown: unknown, { response, requestId }: Exchange, { log }: Services): Reply {
  const { status, message, retryAfterSeconds = 5 } = toCodedError(thrown)
  if (status >= 500) log.error({ err: thrown, requestId }, 'a file could not be sent')
  if (!response.headersSent) return text(status, `${message}\n`, { 'Retry-After': String(retryAfterSeconds) })
  response.destroy()
  return streamed
}
