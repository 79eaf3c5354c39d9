import { z } from 'zod'
import { rulesOf } from '../../db/blob-rules.ts'
import { usageOf } from '../../db/blob-usage.ts'
import { transaction } from '../../db/database.ts'
import { findObject, type NewObject, putObject, type Stored, storeObject } from '../../db/objects.ts'
import { ApiError } from '../../policy/errors.ts'
import { keyParts, objectId } from '../../policy/object-names.ts'
import { type UploadFields, uploadFieldErrors, uploadQuery } from '../../policy/upload-fields.ts'
import { type UploadTerms, uploadTerms } from '../../policy/upload-terms.ts'
import { type UploadedFile, uploadedFile } from '../../policy/uploaded-file.ts'
import type { Caller } from '../authenticate.ts'
import { inPlace } from '../blob-leases.ts'
import type { Exchange } from '../call.ts'
import { isoTime } from '../fields.ts'
import { idempotencyErrors, idempotencyKeyOf, idempotent, type StoreAnswer } from '../idempotent.ts'
import type { Parts } from '../parts.ts'
import { charging, includedBytes } from '../storage-charge.ts'
import { asOneUse } from '../upload-token-use.ts'
import { discard, megabyte, oneFile, receiveFile, type Upload, uploadErrors } from '../uploads.ts'
import { expiryView, placeView } from '../views/object.ts'
import { blobEndpoint } from './blob-endpoint.ts'

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
type View = z.input<typeof uploadedObject>

interface UploadCall {
  caller: Caller
  query: UploadFields
  exchange: Exchange
}

/** Contract 10. Answers once the bytes are synced and the object's row is committed. */
export const objectsUpload = blobEndpoint({
  name: 'objects.upload',
  method: 'POST',
  path: '/v1/objects',
  summary: 'Upload a file',
  auth: { scope: 'blob:write', uploadToken: true },
  crossOrigin: true,
  upload: oneFile,
  query: uploadQuery,
  response: uploadedObject,
  errors: [
    ...uploadErrors,
    ...uploadFieldErrors,
    ...idempotencyErrors,
    'UPLOAD_FAILED',
    'INVALID_FILE_TYPE',
    'BLOCKED_FILE_TYPE',
    'FILE_TYPE_NOT_ALLOWED',
    'FILE_TOO_SMALL',
    'CHECKSUM_MISMATCH',
    'PERMISSION_DENIED',
    'UPGRADE_REQUIRED',
    'STORAGE_QUOTA_EXCEEDED',
    'PREFIX_REQUIRED',
    'PREFIX_NOT_ALLOWED',
    'UPLOAD_TOKEN_USED',
    'OBJECT_ALREADY_EXISTS',
    'TOO_MANY_CONCURRENT_UPLOADS',
  ],
  async handle(call, parts) {
    const { user, planName, prefixes, uploadToken } = call.caller
    const rules = await rulesOf(parts.db, user.id)
    const uploader = { planName, prefixes, pins: uploadToken?.pins, rules }
    const terms = uploadTerms(call.query, uploader, new Date())
    await assertRoom(call, parts)
    const subject = `upload/${user.id}`
    const most = parts.config.blob.concurrentUploads
    return inPlace(parts, { subject, most, full: 'TOO_MANY_CONCURRENT_UPLOADS' }, () => uploadIn(terms, call, parts))
  },
})

/** A smaller body costs less than the question whether there is room for it; every object is counted exactly when it is written. */
const askedBytes = megabyte

/** Refuses what cannot fit before its body comes. What will be replaced is not known yet. */
async function assertRoom({ caller, query, exchange }: UploadCall, { db }: Parts): Promise<void> {
  const declared = Number(exchange.request.headers['content-length'] ?? 0) - askedBytes
  if (declared <= 0 || query.overwrite) return
  if ((await usageOf(db, caller.user.id)).bytes + declared > includedBytes(caller))
    throw new ApiError('STORAGE_QUOTA_EXCEEDED')
}

async function uploadIn(terms: UploadTerms, call: UploadCall, parts: Parts): Promise<View> {
  const key = idempotencyKeyOf(call.exchange)
  const spent = (work: () => Promise<View>) => asOneUse(parts, call.caller, work)
  // Whoever repeats a request repeats its answer, and spends nothing.
  return key === undefined ? spent(() => received(terms, call, parts)) : received(terms, call, parts, { key, spent })
}

interface Once {
  key: string
  spent(work: () => Promise<View>): Promise<View>
}

async function received(terms: UploadTerms, call: UploadCall, parts: Parts, once?: Once): Promise<View> {
  const { caller, query, exchange } = call
  let file: UploadedFile | undefined
  const upload = await receiveFile(exchange, parts, {
    accepts(fileName, type) {
      file = uploadedFile(terms, caller.user.id, { fileName, type })
      return true
    },
    unstored: 'UPLOAD_FAILED',
    maxBytes: Math.min(terms.maxBytes, oneFile.maxBytes - megabyte),
  })
  let attached = false
  try {
    const keep = async (store?: StoreAnswer<View>) => {
      const view = await kept(file as UploadedFile, upload, terms, call, parts, store)
      attached = true
      return view
    }
    if (!once) return await keep()
    const fingerprint = `${upload.sha256} ${upload.fileName} ${JSON.stringify(query)}`
    const request = { userId: caller.user.id, key: once.key, route: 'POST /v1/objects', fingerprint }
    return await idempotent<View>(parts.db, exchange, request, store => once.spent(() => keep(store)))
  } finally {
    if (!attached) await discard(parts, upload.segmentId)
  }
}

async function kept(
  file: UploadedFile,
  upload: Upload,
  terms: UploadTerms,
  { caller, query, exchange }: UploadCall,
  parts: Parts,
  store?: StoreAnswer<View>,
): Promise<View> {
  const { segmentId, fileName: _, ...body } = upload
  if (body.size < parts.config.blob.minBytes) throw new ApiError('FILE_TOO_SMALL')
  if (query.checksum_sha256 && query.checksum_sha256 !== body.sha256) throw new ApiError('CHECKSUM_MISMATCH')
  const object: NewObject = {
    ...file.object,
    contentType: file.contentType,
    etag: body.md5,
    sha256: body.sha256,
    cacheControl: terms.cacheControl,
    contentDisposition: terms.disposition,
    originalName: file.originalName,
    metadata: terms.metadata,
    expiresAt: terms.expiresAt,
  }
  const part = { segmentId, length: body.size, body }
  const { overwrite } = terms
  const replacing = overwrite && !terms.hashed ? await findObject(parts.db, file.object) : undefined
  const view = (stored: Stored) => uploadView(stored, file, parts)
  exchange.resource = objectId(file.object)
  return charging(parts, caller, body.size - (replacing?.size ?? 0), async charge => {
    if (!store && !replacing) return view(await putObject(parts.db, object, part, { overwrite, charge }))
    return transaction(parts.db, async trx => {
      const answer = view(await storeObject(trx, object, [part], { overwrite, charge }))
      await store?.(trx, answer)
      return answer
    })
  })
}

function uploadView({ object, replaced }: Stored, { name }: UploadedFile, { config }: Parts): View {
  return {
    ...placeView(object, config.urls.public),
    name,
    prefix: keyParts(object.key)?.prefix || undefined,
    size: object.size,
    ...expiryView(object),
    sha256: object.sha256 ?? '',
    replaced,
  }
}
