import type { ServerResponse } from 'node:http'
import { CommitInDoubt } from '../../db/commits-in-doubt.ts'
import { isUnavailable, sqlState } from '../../db/database.ts'
import { ApiError, inDoubt, spoken, type Wire } from '../../policy/errors.ts'

export interface Reply {
  status: number
  headers?: Record<string, string>
  body?: string | Buffer
}

/** The answer was written by the endpoint itself, as a stream. */
export const streamed: Reply = { status: 200 }

const json = 'application/json; charset=utf-8'

/** The envelope of success; without a value it has only `status` (contract 1.1), and on few rows a code beside it. */
export function success(value: unknown, code?: string, status: 200 | 201 = 200): Reply {
  const beside = code === undefined ? '' : `,"code":${JSON.stringify(code)}`
  const response = value === undefined ? '' : `,"response":${JSON.stringify(value)}`
  const body = `{"status":"success"${beside}${response}}`
  return { status, headers: { 'Content-Type': json }, body }
}

/** A JSON answer without envelope, for the few routes that have none. */
export function plainJson(value: unknown, headers: Record<string, string> = {}): Reply {
  return { status: 200, headers: { 'Content-Type': json, ...headers }, body: JSON.stringify(value) }
}

/** The envelope of a refusal. `terse` leaves the message out, where only status and code are answered (contract 1.2). */
export function failure(error: ApiError, look: { status?: number; terse?: boolean; wire?: Wire } = {}): Reply {
  const said = spoken(error, look.wire ?? 'management')
  const { status = said.status, terse = false } = look
  const headers: Record<string, string> = { 'Content-Type': json }
  if (status === 429 || status === 503) headers['Retry-After'] = String(error.retryAfterSeconds ?? 5)
  const message = terse ? undefined : said.message
  return { status, headers, body: JSON.stringify({ status: 'error', code: said.code, message }) }
}

/** Whatever was thrown, as a refusal with a code of the table; the cause of a 500 is never on the wire. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  if (thrown instanceof CommitInDoubt) return new ApiError('DATABASE_UNAVAILABLE', inDoubt, 2)
  if (isUnavailable(thrown)) return new ApiError('DATABASE_UNAVAILABLE', undefined, 2)
  // A NUL, a lone surrogate or an impossible date that no schema caught: Postgres refuses the text, and so do we.
  if (['22021', '22P05', '22P02', '22007', '22008'].includes(sqlState(thrown))) return new ApiError('INVALID_INPUT')
  return new ApiError('INTERNAL_SERVER_ERROR')
}

/** Answers that never have a body, nor the length of one. */
const bodiless = [204, 304]

/** Writes a reply, which nobody may keep unless it says so: answers carry keys, variables and links. Does nothing when the client is gone. */
export function send(response: ServerResponse, reply: Reply, requestId: string): void {
  if (response.headersSent || response.destroyed) return
  const { status, headers, body } = reply
  response.writeHead(status, {
    'Cache-Control': 'no-store',
    ...headers,
    ...(!bodiless.includes(status) && { 'Content-Length': body === undefined ? 0 : Buffer.byteLength(body) }),
    'X-Request-Id': requestId,
  })
  response.end(body)
}
