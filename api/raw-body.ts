import { PassThrough } from 'node:stream'
import type { StoredBody } from '../activities/object-store.ts'
import { stillDrawn } from '../db/segments.ts'
import { ApiError, type ErrorCode } from '../policy/errors.ts'
import { inviteBody } from './body.ts'
import type { Exchange } from './call.ts'
import type { Parts } from './parts.ts'
import { discard, keepPace } from './uploads.ts'

/** A slow body says that it is still coming, well before the sweep would take it for forgotten. */
const sayAliveMs = 10 * 60_000

export interface RawReception {
  maxBytes: number
  /** What is said of a body that turns out to be larger. */
  tooLarge: ErrorCode
  /** What is said when the object store could not keep it. */
  unstored: ErrorCode
}

/** Whether a request says itself that it has no body. */
export const isEmpty = ({ request: { headers } }: Exchange): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0

/**
 * Streams a body that is nothing but bytes into the object store; nothing is left behind by a refusal. The caller attaches or
 * discards the segment. Throws `tooLarge`, `unstored`, and UPLOAD_ABORTED when the body ends early or comes too slowly.
 */
export async function receiveRaw(
  { request, response }: Exchange,
  parts: Parts,
  { maxBytes, tooLarge, unstored }: RawReception,
): Promise<{ segmentId: string; body: StoredBody }> {
  const segmentId = await parts.segmentIds.take()
  // The store destroys what it refuses, and the connection has an answer to carry yet.
  const bytes = new PassThrough({ highWaterMark: 256 * 1024 })
  const cancel = new AbortController()
  const lost = () => request.complete || cancel.abort()
  const alive = setInterval(() => stillDrawn(parts.db, segmentId).catch(() => {}), sayAliveMs)
  const stopWatch = keepPace(request, () => cancel.abort())
  request.once('close', lost).once('error', lost)
  if (request.destroyed) lost()
  try {
    inviteBody(request, response)
    request.pipe(bytes)
    return { segmentId, body: await parts.store.put(segmentId, bytes, { maxBytes, signal: cancel.signal }) }
  } catch (error) {
    request.unpipe(bytes)
    await discard(parts, segmentId)
    if ((error as Error).name === 'BodyTooLarge') throw new ApiError(tooLarge)
    if (cancel.signal.aborted) throw new ApiError('UPLOAD_ABORTED')
    parts.log.error({ err: error, segmentId }, 'a body could not be stored')
    throw new ApiError(unstored)
  } finally {
    clearInterval(alive)
    stopWatch()
    request.off('close', lost).off('error', lost)
  }
}
