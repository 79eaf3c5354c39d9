import { PassThrough } from 'node:stream'
import type { StoredBody } from '../../../activities/objects/port.ts'
import { KiB } from '../../../lib/bytes.ts'
import { inviteBody } from '../../http/body.ts'
import type { Exchange } from '../../http/exchange.ts'
import { watchPace } from '../../http/pace.ts'
import type { Services } from '../../services.ts'
import { type BodyRules, storeBody } from '../uploads.ts'

/** Whether the headers of a request say that it has no body. */
export const isEmpty = ({ request: { headers } }: Exchange): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0

/**
 * Streams a raw body into the object store; a refusal leaves nothing behind. The caller attaches or discards the segment. Throws
 * `tooLarge`, `unstored`, and UPLOAD_ABORTED when the body ends early or arrives too slowly.
 */
export async function receiveRaw(
  { request, response }: Exchange,
  services: Services,
  rules: BodyRules,
): Promise<{ segmentId: string; body: StoredBody }> {
  // The store destroys a stream that it refuses, but the connection must still carry the answer.
  const bytes = new PassThrough({ highWaterMark: 256 * KiB })
  const cancel = new AbortController()
  const lost = () => request.complete || cancel.abort()
  const stopWatch = watchPace(request, () => cancel.abort())
  request.once('close', lost).once('error', lost)
  if (request.destroyed) lost()
  try {
    inviteBody(request, response)
    request.pipe(bytes)
    const { segmentId, ...body } = await storeBody(bytes, services, rules, cancel)
    return { segmentId, body }
  } catch (error) {
    request.unpipe(bytes)
    throw error
  } finally {
    stopWatch()
    request.off('close', lost).off('error', lost)
  }
}
