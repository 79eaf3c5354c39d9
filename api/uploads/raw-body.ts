import { PassThrough, type Transform } from 'node:stream'
import { KiB } from '../../lib/bytes.ts'
import { CodedError } from '../../policy/errors.ts'
import { inviteBody } from '../http/body.ts'
import type { Exchange } from '../http/exchange.ts'
import { watchPace } from '../http/pace.ts'
import type { Services } from '../services.ts'
import { type Arrived, type BodyRules, storeBody } from './uploads.ts'

/** Whether the headers of a request say that it has no body. */
export const isEmpty = ({ request: { headers } }: Exchange): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0

/** Bytes that are held between the connection and the store. */
export const heldBytes = 256 * KiB

/**
 * Streams a raw body into the object store; a refusal leaves nothing behind. The caller attaches or discards the segment. Throws
 * `tooLarge`, `unstored`, UPLOAD_ABORTED when the body ends early or arrives too slowly. It passes
 * through `through`, whose error is `unstored`.
 */
export async function receiveRaw(
  { request, response }: Exchange,
  services: Services,
  rules: BodyRules,
  // The store destroys a stream that it refuses, but the connection must still carry the answer.
  through: Transform = new PassThrough({ highWaterMark: heldBytes }),
): Promise<Arrived> {
  const cancel = new AbortController()
  const giveUp = () => {
    cancel.abort()
    // A caller that waits for a small body waits for nothing else.
    through.destroy(new CodedError('UPLOAD_ABORTED'))
  }
  const lost = () => request.complete || giveUp()
  const stopWatch = watchPace(request, giveUp)
  request.once('close', lost).once('error', lost)
  if (request.destroyed) lost()
  try {
    inviteBody(request, response)
    request.pipe(through)
    return await storeBody(through, services, rules, cancel)
  } catch (error) {
    request.unpipe(through)
    throw error
  } finally {
    stopWatch()
    request.off('close', lost).off('error', lost)
  }
}
