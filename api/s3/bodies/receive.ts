import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Services } from '../../services.ts'
import { heldBytes, receiveRaw } from '../../uploads/raw-body.ts'
import { type Arrived, type BodyRules, discard } from '../../uploads/uploads.ts'
import type { Payload, SizedPayload } from './payload.ts'
import { PayloadStream } from './payload-stream.ts'

/** A body that has arrived and is what it was stated to be. Nothing refers to it yet. */
export interface ReceivedBody {
  arrived: Arrived
  checksum: Omit<StoredChecksum, 'type'> | null
}

/**
 * Streams a body into the object store and verifies it; a refusal leaves nothing behind. The caller attaches or discards the segment.
 * Throws BadDigest, XAmzContentSHA256Mismatch, IncompleteBody, what is wrong with the frames of chunks, and what `receiveRaw` throws.
 */
export async function receivePayload(
  exchange: Exchange,
  services: Services,
  payload: SizedPayload,
  rules: BodyRules,
): Promise<ReceivedBody> {
  if (payload.length > rules.maxBytes) throw tooLarge(payload.length, rules.maxBytes)
  const stream = new PayloadStream(payload, heldBytes)
  const isRefused = () => stream.refusal !== null
  const arrived = await receiveRaw(exchange, services, { ...rules, isRefused }, stream).catch(error => {
    throw stream.refusal ?? error
  })
  return verified(payload, { arrived, stream }, services)
}

interface Arrival {
  arrived: Arrived
  stream: PayloadStream
  /** Rejects when what follows the body is wrong. */
  ended?: Promise<void>
}

/** Compares a body with what was stated of it, and discards it when it differs. Throws BadDigest and XAmzContentSHA256Mismatch. */
export function verified(
  { md5, sha256, checksum }: Payload,
  { arrived, stream, ended }: Arrival,
  services: Services,
): Promise<ReceivedBody> {
  return discardingOnFailure(services, arrived, async () => {
    await ended
    if (md5 !== null && md5 !== arrived.md5) throw new S3Error('BadDigest')
    if (sha256 !== null && sha256 !== arrived.sha256)
      throw new S3Error('XAmzContentSHA256Mismatch', undefined, {
        ClientComputedContentSHA256: sha256,
        S3ComputedContentSHA256: arrived.sha256,
      })
    const { value } = stream
    return { arrived, checksum: checksum && value !== null ? { algorithm: checksum.algorithm, value } : null }
  })
}

const tooLarge = (bytes: number, maxBytes: number): S3Error =>
  new S3Error('EntityTooLarge', undefined, { ProposedSize: String(bytes), MaxSizeAllowed: String(maxBytes) })

/**
 * Runs `work`, which makes an arrived body an object or a part, and discards the body when it fails. Only an unreferenced segment is
 * removed: a commit whose answer was lost keeps its own.
 */
export async function discardingOnFailure<T>(services: Services, arrived: Arrived, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await discard(services, arrived)
    throw error
  }
}
