import type { Db } from '../../../db/database.ts'
import { ownTransaction } from '../../../db/locked-slots.ts'
import { putObject } from '../../../db/objects/object-puts.ts'
import { findObject, type NewObject, type StoredObject, storeObject } from '../../../db/objects/objects.ts'
import { CodedError } from '../../../policy/errors.ts'
import { keyParts, objectId, unavailableStorage } from '../../../policy/objects/object-names.ts'
import type { UploadFields } from '../../../policy/objects/uploads/upload-fields.ts'
import type { UploadTerms } from '../../../policy/objects/uploads/upload-terms.ts'
import { type UploadedFile, uploadedFile } from '../../../policy/objects/uploads/uploaded-file.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import type { Exchange } from '../../http/exchange.ts'
import { reauthenticate } from '../../pipeline/access.ts'
import { entryOf } from '../../pipeline/audit.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { type InTransaction, idempotencyKeyOf, oncePerKey, withoutKey } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import type { HeldLease } from '../../uploads/blob-leases.ts'
import { withReservedStorage } from '../../uploads/storage-charge.ts'
import { discard, receiveFile, type Upload } from '../../uploads/uploads.ts'
import { expiryView, placeView } from '../../views/object.ts'
import { withTokenUse } from '../upload-token-use.ts'

export interface UploadCall {
  caller: Caller
  query: UploadFields
  exchange: Exchange
}

/** An upload in its slot, whose lease ends in the commit that stores the object. */
export interface LeasedUpload extends UploadCall {
  held: HeldLease
}

type View = ReturnType<typeof uploadView>

/** The rights for uploading. */
export const uploading = { scope: 'blob:write', uploadToken: true } as const

/** A file that has arrived, and what it will be. */
interface Arrived {
  file: UploadedFile
  upload: Upload
  terms: UploadTerms
}

/**
 * Receives the file of a form and stores it as an object, once per `Idempotency-Key` and as one use of an upload token. A repeated
 * request gets the same answer and takes no use. A refusal leaves nothing behind.
 */
export async function writeUpload(terms: UploadTerms, call: LeasedUpload, services: Services): Promise<View> {
  const key = idempotencyKeyOf(call.exchange)
  const asTokenUse = (work: () => Promise<View>) => withTokenUse(services, call.caller, work)
  // Without a key there can be no earlier answer, so a used-up token is refused before the body is sent.
  if (key === undefined)
    return asTokenUse(() => receive(terms, call, services, arrived => store(arrived, call, services)))
  return receive(terms, call, services, arrived => {
    const { sha256, fileName } = arrived.upload
    // What an upload token pins is a part of the request.
    const fields = [call.query, call.caller.uploadToken?.pins].filter(Boolean).map(values => JSON.stringify(values))
    const fingerprint = [sha256, fileName, ...fields].join(' ')
    const request = { key, route: 'POST /v1/objects', fingerprint, includesPins: true } as const
    return oncePerKey<View>(call, request, services.db, inTransaction =>
      asTokenUse(() => store(arrived, call, services, inTransaction)),
    )
  })
}

async function receive(
  terms: UploadTerms,
  { caller, exchange }: UploadCall,
  services: Services,
  work: (arrived: Arrived) => Promise<View>,
): Promise<View> {
  let file: UploadedFile | undefined
  const upload = await receiveFile(exchange, services, {
    accepts(fileName, type) {
      file = uploadedFile(terms, caller.user.id, { fileName, type })
      return true
    },
    ownerId: caller.user.id,
    unstored: unavailableStorage(terms.bucket),
    maxBytes: Math.min(terms.maxBytes, requestCaps.fileBytes),
    smallBesideRow: true,
  })
  let written = false
  try {
    await reauthenticate({ auth: uploading, errors: ['ACCOUNT_BLOCKED'] }, exchange, services)
    const view = await work({ file: file as UploadedFile, upload, terms })
    written = !('Idempotent-Replayed' in exchange.headers)
    return view
  } finally {
    if (!written) await discard(services, upload)
  }
}

async function store(
  arrived: Arrived,
  call: LeasedUpload,
  services: Services,
  inTransaction?: InTransaction<View>,
): Promise<View> {
  const { caller, query, exchange, held } = call
  const { segmentId, fileName: _, bytes, ...body } = arrived.upload
  if (body.size < services.config.blob.minBytes) throw new CodedError('FILE_TOO_SMALL')
  if (query.checksum_sha256 && query.checksum_sha256 !== body.sha256) throw new CodedError('CHECKSUM_MISMATCH')
  const object = objectOf(arrived)
  const part = { segmentId, length: body.size, body, bytes }
  const { overwrite, hashed } = arrived.terms
  const replacing = overwrite && !hashed ? await findObject(services.db, object) : undefined
  exchange.resource = objectId(object)
  const view = (stored: StoredObject) => uploadView(stored, arrived.file, services)
  const ending = { lease: held.lease, entry: entryOf('objects.upload', call, exchange, 'success') }
  return withReservedStorage(services, caller, { size: body.size, replaced: replacing?.size ?? null }, async charge => {
    const options = { overwrite, charge, ending }
    const storeIn = async (trx: Db) => ({ answer: view(await storeObject(trx, object, [part], options)) })
    const { answer } =
      inTransaction || replacing
        ? await (inTransaction ?? withoutKey<View>(services.db))(storeIn, work =>
            ownTransaction(services.db, caller.user.id, work),
          )
        : { answer: view(await putObject(services.db, object, part, options)) }
    held.isEnded = true
    exchange.recorded = true
    return answer
  })
}

const objectOf = ({ file, upload, terms }: Arrived): NewObject => ({
  ...file.object,
  contentType: file.contentType,
  etag: upload.md5,
  sha256: upload.sha256,
  cacheControl: terms.cacheControl,
  contentDisposition: terms.disposition,
  originalName: file.originalName,
  metadata: terms.metadata,
  expiresAt: terms.expiresAt,
})

/** Contract 7.12: the prefix is omitted at the root, because existing clients reject null. */
const uploadView = ({ object, replaced }: StoredObject, { name }: UploadedFile, { config }: Services) => ({
  ...placeView(object, config.urls.public),
  name,
  prefix: keyParts(object.key)?.prefix || undefined,
  size: object.size,
  ...expiryView(object),
  sha256: object.sha256 ?? '',
  replaced,
})
