import type { ServerResponse } from 'node:http'
import { CommitInDoubt } from '../../db/commits-in-doubt.ts'
import { isUnavailable, sqlState } from '../../db/database.ts'
import { aiFailure, maxRetrySeconds } from '../../policy/ai/ai-refusal.ts'
import { CodedError, errorOn, inDoubt, shownCode, type Wire } from '../../policy/errors.ts'

export interface Reply {
  status: number
  headers?: Record<string, string>
  body?: string | Buffer
}

/** A value that is JSON already, for large answers that are given several times. */
export class JsonText {
  constructor(readonly text: string) {}
}

/** The reply of an endpoint that has written its answer itself, as a stream. */
export const streamed: Reply = { status: 200 }

const json = 'application/json; charset=utf-8'

/** The envelope of success; without a value it has only `status` (contract 1.1), and for a few endpoints a code next to it. */
export function success(value: unknown, code?: string, status: 200 | 201 = 200): Reply {
  const codeField = code === undefined ? '' : `,"code":${JSON.stringify(code)}`
  const responseField =
    value === undefined ? '' : `,"response":${value instanceof JsonText ? value.text : JSON.stringify(value)}`
  const body = `{"status":"success"${codeField}${responseField}}`
  return { status, headers: { 'Content-Type': json }, body }
}

/** A JSON answer for the few routes without an envelope. */
export function plainJson(value: unknown, headers: Record<string, string> = {}): Reply {
  return { status: 200, headers: { 'Content-Type': json, ...headers }, body: JSON.stringify(value) }
}

/** The envelope of a refusal. `terse` omits the message, for codes that are answered with status and code only (contract 1.2). */
export function failure(error: CodedError, options: { status?: number; terse?: boolean; wire?: Wire } = {}): Reply {
  const { wire = 'management', terse = false } = options
  const onWire = errorOn(error, wire)
  const { status = onWire.status } = options
  const headers: Record<string, string> = { 'Content-Type': json }
  const waitSeconds = status === 429 || status === 503 ? (error.retryAfterSeconds ?? 5) : undefined
  if (waitSeconds !== undefined) headers['Retry-After'] = String(waitSeconds)
  if (wire === 'ai') {
    if (waitSeconds !== undefined && waitSeconds > maxRetrySeconds) headers['X-Should-Retry'] = 'false'
    return { status, headers, body: JSON.stringify(aiFailure(shownCode(wire, onWire.code), status, onWire.message)) }
  }
  const message = terse ? undefined : onWire.message
  return { status, headers, body: JSON.stringify({ status: 'error', code: onWire.code, message }) }
}

/** Turns anything thrown into a refusal with a code of the catalogue. The cause of a 500 is never sent. */
export function toCodedError(thrown: unknown): CodedError {
  if (thrown instanceof CodedError) return thrown
  if (thrown instanceof CommitInDoubt) return inDoubt()
  if (isUnavailable(thrown)) return new CodedError('DATABASE_UNAVAILABLE', undefined, 2)
  // A NUL, a lone surrogate or an impossible date that no schema caught and Postgres refuses.
  if (['22021', '22P05', '22P02', '22007', '22008'].includes(sqlState(thrown))) return new CodedError('INVALID_INPUT')
  return new CodedError('INTERNAL_SERVER_ERROR')
}

/** Statuses whose answers have neither a body nor a Content-Length. */
const bodiless = [204, 304]

/** Sends a reply, which caches must not store unless it says otherwise: answers contain keys, variables and links. Does nothing when the client has disconnected. */
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
