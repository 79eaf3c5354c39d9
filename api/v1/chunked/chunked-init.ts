import { z } from 'zod'
import type { Db } from '../../../db/database.ts'
import { inOwnSlot } from '../../../db/locked-slots.ts'
import { listRules } from '../../../db/objects/blob-rules.ts'
import { readUsage } from '../../../db/objects/blob-usage.ts'
import { findObject } from '../../../db/objects/objects.ts'
import { useUploadToken } from '../../../db/objects/uploads/upload-tokens.ts'
import { type NewUpload, openUpload } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import type { ObjectName } from '../../../policy/objects/object-names.ts'
import { chunkBytes, maxFileBytes } from '../../../policy/objects/uploads/chunked.ts'
import { chunkedSecret, chunkedToken } from '../../../policy/objects/uploads/chunked-tokens.ts'
import { uploadFieldErrors, uploadQuery } from '../../../policy/objects/uploads/upload-fields.ts'
import { uploadTerms } from '../../../policy/objects/uploads/upload-terms.ts'
import { uploadedFile } from '../../../policy/objects/uploads/uploaded-file.ts'
import { characters } from '../../../policy/stated-bounds.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { idempotencyErrors, idempotent } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import { includedBytes } from '../../uploads/storage-charge.ts'
import { idOf } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'

const initQuery = uploadQuery.omit({ checksum_sha256: true }).extend({
  /** The extension comes from it, as from the file name in a form. */
  filename: characters({ min: 1, max: 1024 }).optional(),
  mime_type: characters({ max: 255 }).optional(),
})

/** Contract 7.31: opens an upload in parts and returns its limits. */
export const beginChunkedUpload = blobEndpoint({
  name: 'chunked.init',
  method: 'POST',
  path: '/v1/objects/chunked',
  summary: 'Open a chunked upload',
  auth: { scope: 'blob:write', uploadToken: true },
  crossOrigin: true,
  query: initQuery,
  response: z.object({
    upload: z.string(),
    id: z.string(),
    max_parts: z.int(),
    chunk: z.object({ min_size: z.int(), max_size: z.int(), max_parts: z.int(), max_object_size: z.int() }),
  }),
  errors: [
    ...uploadFieldErrors,
    ...idempotencyErrors,
    'PERMISSION_DENIED',
    'UPGRADE_REQUIRED',
    'PREFIX_REQUIRED',
    'PREFIX_NOT_ALLOWED',
    'INVALID_FILE_TYPE',
    'BLOCKED_FILE_TYPE',
    'FILE_TYPE_NOT_ALLOWED',
    'OBJECT_ALREADY_EXISTS',
    'STORAGE_QUOTA_EXCEEDED',
    'UPLOAD_TOKEN_USED',
    'TOO_MANY_OPEN_UPLOADS',
  ],
  async handle({ caller, query, exchange }, services) {
    // An upload that one token opened could not be continued with another.
    const body = caller.uploadToken ? { ...query, by: caller.uploadToken.id } : query
    const opened = async (trx: Db) => {
      const upload = await newUpload(trx, caller, query, services)
      if (caller.uploadToken && !(await useUploadToken(trx, caller.uploadToken.id)))
        throw new CodedError('UPLOAD_TOKEN_USED')
      const id = await openUpload(trx, upload, services.config.blob.chunked.maxOpen)
      if (!id) throw new CodedError('TOO_MANY_OPEN_UPLOADS')
      return {
        upload: chunkedToken(chunkedSecret(services.config.masterKey), caller.user.id, id),
        id: idOf(upload),
        max_parts: upload.max_parts,
        chunk: {
          min_size: chunkBytes.min,
          max_size: chunkBytes.max,
          max_parts: upload.max_parts,
          max_object_size: upload.max_bytes,
        },
      }
    }
    return inOwnSlot(services.db, caller.user.id, () =>
      idempotent({ caller, body, exchange }, 'POST /v1/objects/chunked', services.db, opened),
    )
  },
})

/** The row of the upload, checked as an upload in one request is. Throws what that throws. */
async function newUpload(
  trx: Db,
  caller: Caller,
  query: z.output<typeof initQuery>,
  { config }: Services,
): Promise<NewUpload> {
  const { user, planName, prefixes, uploadToken } = caller
  const rules = await listRules(trx, user.id)
  const terms = uploadTerms(query, { planName, prefixes, pins: uploadToken?.pins, rules }, new Date())
  const file = uploadedFile(terms, user.id, { fileName: query.filename ?? 'blob', type: query.mime_type })
  if (!terms.overwrite) await assertNew(trx, file.object, caller)
  const { maxParts, maxBytes } = config.blob.chunked
  return {
    owner_id: user.id,
    wire: 'blob',
    bucket: file.object.bucket,
    key: file.object.key,
    overwrite: terms.overwrite,
    content_type: file.contentType,
    cache_control: terms.cacheControl,
    content_disposition: terms.disposition,
    original_name: file.originalName,
    metadata: terms.metadata,
    s3: null,
    expires_at: terms.expiresAt,
    max_parts: maxParts,
    max_bytes: Math.min(maxFileBytes(maxParts, maxBytes), terms.maxBytes),
    upload_token_id: uploadToken?.id ?? null,
  }
}

/** Refuses what Complete would refuse, before gigabytes are sent. An overwrite may even need less storage than is used. */
async function assertNew(trx: Db, object: ObjectName, caller: Caller): Promise<void> {
  if (await findObject(trx, object)) throw new CodedError('OBJECT_ALREADY_EXISTS')
  if ((await readUsage(trx, caller.user.id)).bytes >= includedBytes(caller))
    throw new CodedError('STORAGE_QUOTA_EXCEEDED')
}
