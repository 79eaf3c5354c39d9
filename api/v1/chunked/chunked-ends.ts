import { z } from 'zod'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { abortUpload, completeUpload } from '../../../db/objects/uploads/upload-ends.ts'
import { listUploadParts } from '../../../db/objects/uploads/upload-parts.ts'
import { readReplacedBytes } from '../../../db/objects/uploads/upload-room.ts'
import { findUpload } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import { assertPaid } from '../../../policy/objects/blob-options.ts'
import { type UploadPart, wholeParts } from '../../../policy/objects/uploads/chunked.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { assertReserved, retryingOutgrown, withReservedStorage } from '../../uploads/storage-charge.ts'
import { expiryView, placeView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { assertMayContinue, ownUpload, ownUploadErrors, ownUploadId, uploadField } from './own-upload.ts'

const completed = z.object({
  id: z.string(),
  private: z.boolean(),
  url: z.string().nullable(),
  expires_at: isoTime.optional(),
  size: z.int(),
  parts: z.int(),
})

/** Contract 7.35: the parts become the file. Nothing is copied, so ten gigabytes take no longer than one. */
export const completeChunkedUpload = blobEndpoint({
  name: 'chunked.complete',
  method: 'PATCH',
  path: '/v1/objects/chunked',
  summary: 'Complete a chunked upload',
  auth: { scope: 'blob:write', uploadToken: true },
  crossOrigin: true,
  body: z.object({ upload: uploadField }),
  response: completed,
  errors: [
    ...ownUploadErrors,
    'PERMISSION_DENIED',
    'NO_CHUNKS_UPLOADED',
    'CHUNK_TOO_SMALL',
    'INVALID_CHUNK_PART',
    'FILE_TOO_SMALL',
    'OBJECT_ALREADY_EXISTS',
    'STORAGE_QUOTA_EXCEEDED',
    'UPLOAD_FAILED',
  ],
  async handle({ caller, body }, services) {
    assertPaid(caller.planName)
    const upload = await ownUpload(body.upload, caller, services)
    const choose = (stored: readonly UploadPart[]) => largeEnough(wholeParts(stored), services.config.blob.minBytes)
    const completion = await retryingOutgrown(new CodedError('UPLOAD_FAILED'), async () => {
      const size = await listUploadParts(services.db, upload.id)
        .then(stored => sizeOf(choose(stored)))
        .catch(async refusal => {
          await ownUpload(body.upload, caller, services) // reports an upload that has ended meanwhile, and lost its parts, as ended
          throw refusal
        })
      const reserved = (stored: readonly UploadPart[]) => {
        const parts = choose(stored)
        assertReserved(sizeOf(parts), size) // a part may have been replaced
        return parts
      }
      const bytes = { size, replaced: await readReplacedBytes(services.db, upload), completing: upload.id }
      const named = { id: upload.id, ownerId: caller.user.id }
      return withReservedStorage(services, caller, bytes, charge =>
        ownTransaction(services.db, caller.user.id, trx =>
          completeUpload(trx, named, { choose: reserved, options: { charge } }),
        ),
      )
    })
    if (!completion) throw new CodedError('UPLOAD_NOT_FOUND')
    const { object } = completion
    return {
      ...placeView(object, services.config.urls.public),
      ...expiryView(object),
      size: object.size,
      parts: completion.parts,
    }
  },
})

const sizeOf = (parts: readonly UploadPart[]): number => parts.reduce((sum, { size }) => sum + size, 0)

function largeEnough(parts: readonly UploadPart[], minBytes: number): readonly UploadPart[] {
  if (sizeOf(parts) < minBytes) throw new CodedError('FILE_TOO_SMALL')
  return parts
}

/** Contract 7.36: drops what was sent. Aborting an upload that has ended without a file changes nothing. */
export const abortChunkedUpload = blobEndpoint({
  name: 'chunked.abort',
  method: 'DELETE',
  path: '/v1/objects/chunked',
  summary: 'Abort a chunked upload',
  auth: { scope: 'blob:write', uploadToken: true },
  crossOrigin: true,
  body: z.object({ upload: uploadField }),
  errors: ownUploadErrors,
  async handle({ caller, body }, services) {
    const upload = { id: ownUploadId(body.upload, caller, services), ownerId: caller.user.id }
    const open = await findUpload(services.db, upload.id, upload.ownerId)
    if (open) assertMayContinue(open, caller)
    const end = await ownTransaction(services.db, caller.user.id, trx => abortUpload(trx, upload))
    if (end === 'completed')
      throw new CodedError('UPLOAD_NOT_FOUND', 'The upload was completed. Delete the file instead.')
  },
})
