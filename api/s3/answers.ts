import { sqlState } from '../../db/database.ts'
import { randomBytes } from '../../lib/random-bytes.ts'
import { S3Error, s3ErrorOf } from '../../policy/s3/s3-errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Reply, streamed, toCodedError } from '../http/respond.ts'
import type { RenderMalformed } from '../http/server.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import type { Services } from '../services.ts'
import { type Xml, xmlError, xmlResult } from './xml.ts'

/** A result as a document. */
export const xmlReply = (name: string, content: Xml, headers: Record<string, string> = {}): Reply => ({
  status: 200,
  headers: { 'Content-Type': 'application/xml', ...headers },
  body: xmlResult(name, content),
})

/** Success without a document. */
export const emptyReply = (status: 200 | 204, headers: Record<string, string> = {}): Reply => ({ status, headers })

/** An account as the owner of what a result lists. */
export const ownerElements = ({ user }: Pick<Caller, 'user'>) => ({ ID: user.id, DisplayName: user.name })

/** Identifies every response, as clients of S3 expect it in their error messages. */
export const identified = ({ requestId }: Exchange): Record<string, string> => ({
  'x-amz-request-id': requestId,
  'x-amz-id-2': randomBytes(24).toString('base64'),
})

/** An error as a document. Once a body has started, the connection is closed instead: a broken body must not look complete. */
export function failedS3(thrown: unknown, exchange: Exchange, resource: string, { log }: Services): Reply {
  const { response, requestId } = exchange
  const error = s3ErrorFrom(thrown)
  if (error.status >= 500 && error.code !== 'NotImplemented' && error.code !== 'SlowDown' && !response.destroyed)
    log.error({ err: thrown, requestId, code: error.code }, 'an S3 request failed')
  if (response.headersSent) {
    response.destroy()
    return streamed
  }
  const { code, message, status, elements, retryAfterSeconds } = error
  const body = { Code: code, Message: message, ...elements, Resource: resource, RequestId: requestId }
  return {
    status,
    headers: {
      'Content-Type': 'application/xml',
      ...(status === 503 && { 'Retry-After': String(retryAfterSeconds) }),
      ...(elements.ActualObjectSize !== undefined && { 'Content-Range': `bytes */${elements.ActualObjectSize}` }),
    },
    body: xmlError(body),
  }
}

/** The answer of the gateway's port to a malformed HTTP request. */
export const malformedS3: RenderMalformed = ({ requestId }) => ({
  headers: { 'Content-Type': 'application/xml', 'x-amz-request-id': requestId },
  body: xmlError({
    Code: 'InvalidRequest',
    Message: 'The request is not well-formed HTTP, or its headers exceed 16 KiB.',
    RequestId: requestId,
  }),
})

/** A write into a bucket that was deleted meanwhile is refused by Postgres (migration 043). */
function s3ErrorFrom(thrown: unknown): S3Error {
  if (thrown instanceof S3Error) return thrown
  return sqlState(thrown) === foreignKeyViolation ? new S3Error('NoSuchBucket') : s3ErrorOf(toCodedError(thrown))
}

const foreignKeyViolation = '23503'
