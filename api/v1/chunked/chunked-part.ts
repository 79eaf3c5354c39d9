import { z } from 'zod'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { readUploadRoom } from '../../../db/objects/uploads/upload-room.ts'
import type { UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { takeSlotLease } from '../../../db/slot-leases.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertPaid } from '../../../policy/objects/blob-options.ts'
import { unavailableStorage } from '../../../policy/objects/object-names.ts'
import { chunkBytes, partsInFlight } from '../../../policy/objects/uploads/chunked.ts'
import type { Exchange } from '../../http/exchange.ts'
import { reauthenticate } from '../../pipeline/access.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import type { Services } from '../../services.ts'
import { withLease } from '../../uploads/blob-leases.ts'
import { isEmpty, receiveRaw } from '../../uploads/raw-body.ts'
import { includedBytes } from '../../uploads/storage-charge.ts'
import { type BodyRules, discard } from '../../uploads/uploads.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { uploading } from '../objects/object-writing.ts'
import { ownUpload, ownUploadErrors, uploadField } from './own-upload.ts'

const partField = z
  .string({ error: 'INVALID_CHUNK_PART' })
  .regex(/^[1-9]\d{0,3}$/, 'INVALID_CHUNK_PART')
  .transform(Number)
  .meta({ openapi: { type: 'integer', minimum: 1, maximum: 9999, description: 'At most max_parts of the upload.' } })

/** A part without a declared length must still fit into the remaining room. */
const reception = (room: number, { bucket, owner_id: ownerId }: UploadRow): BodyRules => ({
  ownerId,
  maxBytes: Math.min(room, chunkBytes.max),
  tooLarge: room < chunkBytes.max ? 'STORAGE_QUOTA_EXCEEDED' : 'CHUNK_TOO_LARGE',
  unstored: unavailableStorage(bucket),
})

const outcomes = {
  over: 'UPLOAD_NOT_FOUND',
  'too large': 'FILE_TOO_LARGE',
  'no room': 'STORAGE_QUOTA_EXCEEDED',
  swept: 'UPLOAD_FAILED',
} as const

/** Contract 7.32: the body is the part itself. A part that is sent again replaces the earlier one. */
export const uploadPart = blobEndpoint({
  name: 'chunked.part',
  method: 'PUT',
  path: '/v1/objects/chunked',
  summary: 'Send a part of a chunked upload',
  auth: uploading,
  crossOrigin: true,
  unbudgeted: true,
  query: z.object({ upload: uploadField, part: partField }),
  upload: {
    mediaType: 'application/octet-stream',
    parts: z.object({}).meta({ openapi: { type: 'string', format: 'binary' } }),
    maxBytes: chunkBytes.max,
    tooLarge: 'CHUNK_TOO_LARGE',
  },
  response: z.object({ part: z.int(), size: z.int(), etag: z.string() }),
  errors: [
    ...ownUploadErrors,
    'INVALID_CHUNK_PART',
    'PERMISSION_DENIED',
    'EMPTY_CHUNK',
    'CHUNK_TOO_LARGE',
    'FILE_TOO_LARGE',
    'STORAGE_QUOTA_EXCEEDED',
    'TOO_MANY_CONCURRENT_CHUNKS',
    'TOO_MANY_OPEN_UPLOADS',
    'UPLOAD_FAILED',
    'PRIVATE_STORAGE_UNAVAILABLE',
    'PUBLIC_STORAGE_UNAVAILABLE',
  ],
  async handle(call, services) {
    const { caller, query, exchange } = call
    assertPaid(caller.planName)
    if (/^multipart\//i.test(exchange.request.headers['content-type'] ?? ''))
      throw new CodedError('INVALID_CONTENT_TYPE', 'A part must be sent as application/octet-stream, not as a form.')
    const upload = await ownUpload(query.upload, caller, services)
    if (query.part > upload.max_parts)
      throw new CodedError('INVALID_CHUNK_PART', `part must be from 1 to ${upload.max_parts} for this upload.`)
    if (isEmpty(exchange)) throw new CodedError('EMPTY_CHUNK')
    const room = await ownRoom(upload, call, services)
    const lease = await takeSlotLease(services.db, `part/${caller.user.id}`, partsInFlight)
    if (!lease) throw new CodedError('TOO_MANY_CONCURRENT_CHUNKS', undefined, 1)
    return withLease(services, lease, async () => {
      const { segmentId, ...body } = await receiveRaw(exchange, services, reception(room, upload))
      try {
        if (body.size === 0) throw new CodedError('EMPTY_CHUNK')
        await reauthenticate({ auth: uploading }, exchange, services)
        const limit = includedBytes(caller)
        const part = { uploadId: upload.id, part: query.part, segmentId, body, limit }
        const outcome = await ownTransaction(services.db, caller.user.id, trx => storeUploadPart(trx, part))
        if (outcome !== 'stored') throw new CodedError(outcomes[outcome])
        return { part: query.part, size: body.size, etag: body.md5 }
      } catch (error) {
        // Only an unreferenced segment is removed: a commit whose answer was lost keeps its own.
        await discard(services, { segmentId })
        throw error
      }
    })
  },
})

interface PartCall {
  caller: Caller
  query: { part: number }
  exchange: Exchange
}

/**
 * The maximum size of a part: open uploads together must fit into the account's room, plus what this part replaces. Checked again once
 * the part has arrived, because others may have arrived meanwhile. Throws STORAGE_QUOTA_EXCEEDED.
 */
async function ownRoom(upload: UploadRow, { caller, query, exchange }: PartCall, { db }: Services): Promise<number> {
  const declared = Number(exchange.request.headers['content-length'] ?? 1)
  const room = await readUploadRoom(db, upload, query.part, includedBytes(caller))
  if (declared > room) throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  return room
}
