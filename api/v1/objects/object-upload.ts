import { z } from 'zod'
import { tooManyObjects } from '../../../db/objects/storage-quota.ts'
import { readHeld } from '../../../db/objects/uploads/upload-room.ts'
import { startUpload } from '../../../db/objects/uploads/upload-starts.ts'
import { MiB } from '../../../lib/bytes.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { RuleFields } from '../../../policy/objects/blob-rules.ts'
import { uploadFieldErrors, uploadQuery } from '../../../policy/objects/uploads/upload-fields.ts'
import { type UploadTerms, uploadTerms } from '../../../policy/objects/uploads/upload-terms.ts'
import { isoTime } from '../../pipeline/fields.ts'
import { idempotencyErrors } from '../../pipeline/idempotent.ts'
import { mapUnexpectedError } from '../../pipeline/unexpected-errors.ts'
import type { Services } from '../../services.ts'
import { withLease } from '../../uploads/blob-leases.ts'
import { includedBytes, maxObjects } from '../../uploads/storage-charge.ts'
import { oneFile } from '../../uploads/uploads.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { type UploadCall, uploading, writeUpload } from './object-writing.ts'

const uploadedObject = z.object({
  id: z.string(),
  name: z.string(),
  prefix: z.string().optional(),
  size: z.int(),
  private: z.boolean(),
  url: z.string().nullable(),
  expires_at: isoTime.optional(),
  sha256: z.string(),
  replaced: z.boolean(),
})
/** Contract 7.11. Answers once the bytes are synced and the object's row is committed. */
export const uploadObject = blobEndpoint({
  name: 'objects.upload',
  method: 'POST',
  path: '/v1/objects',
  summary: 'Upload a file',
  auth: uploading,
  crossOrigin: true,
  upload: oneFile,
  query: uploadQuery,
  response: uploadedObject,
  errors: [
    'INVALID_FILE',
    'FILE_TOO_LARGE',
    'INVALID_CONTENT_TYPE',
    ...uploadFieldErrors,
    ...idempotencyErrors,
    'UPLOAD_FAILED',
    'PRIVATE_STORAGE_UNAVAILABLE',
    'PUBLIC_STORAGE_UNAVAILABLE',
    'INVALID_FILE_TYPE',
    'BLOCKED_FILE_TYPE',
    'FILE_TYPE_NOT_ALLOWED',
    'FILE_TOO_SMALL',
    'CHECKSUM_MISMATCH',
    'PERMISSION_DENIED',
    'ACCOUNT_BLOCKED',
    'UPGRADE_REQUIRED',
    'STORAGE_QUOTA_EXCEEDED',
    'PREFIX_REQUIRED',
    'PREFIX_NOT_ALLOWED',
    'UPLOAD_TOKEN_USED',
    'OBJECT_ALREADY_EXISTS',
    'TOO_MANY_CONCURRENT_UPLOADS',
  ],
  async handle(call, services) {
    const { rules, lease } = await startUpload(services.db, call.caller.user.id, services.config.blob.concurrentUploads)
    if (!lease) {
      await termsOf(call, rules, services)
      throw new CodedError('TOO_MANY_CONCURRENT_UPLOADS', undefined, 1)
    }
    return withLease(services, lease, async held => {
      const terms = await termsOf(call, rules, services)
      return mapUnexpectedError('UPLOAD_FAILED', services, () => writeUpload(terms, { ...call, held }, services))
    })
  },
})

/** What the upload will be. Its errors are reported before the body is sent, even when there is no free slot. */
async function termsOf(call: UploadCall, rules: readonly RuleFields[], services: Services): Promise<UploadTerms> {
  const { planName, prefixes, uploadToken } = call.caller
  const terms = uploadTerms(call.query, { planName, prefixes, pins: uploadToken?.pins, rules }, new Date())
  await assertRoom(call, services)
  return terms
}

/** Reading a smaller body costs less than checking whether there is room; every object is counted exactly when it is written. */
const checkedFromBytes = MiB

/** Refuses a body that cannot fit before it is sent. What it would replace is not known yet. */
async function assertRoom({ caller, query, exchange }: UploadCall, { db }: Services): Promise<void> {
  const declared = Number(exchange.request.headers['content-length'] ?? 0) - checkedFromBytes
  if (declared <= 0 || query.overwrite) return
  const held = await readHeld(db, caller.user.id)
  if (held.bytes + declared > includedBytes(caller)) throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  if (held.objects >= maxObjects(caller)) throw tooManyObjects()
}
