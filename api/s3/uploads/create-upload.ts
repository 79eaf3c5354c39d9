import { ownTransaction } from '../../../db/locked-slots.ts'
import { listRules } from '../../../db/objects/blob-rules.ts'
import { readUsage } from '../../../db/objects/blob-usage.ts'
import { openUpload } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import { algorithmNamed } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { UploadFacts } from '../../../policy/s3/s3-facts.ts'
import { refuseUnsupported, writtenHeaders } from '../../../policy/s3/s3-headers.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { expiryOf, writeTerms } from '../../../policy/s3/s3-write-terms.ts'
import { includedBytes } from '../../uploads/storage-charge.ts'
import { xmlReply } from '../answers.ts'
import { assertMayWrite } from '../objects/write-object.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'

/** Opens an upload in parts; what its headers say becomes the object's. It expires as those of the Blob API do (contract 7.37). */
export const createMultipartUpload: Operation = {
  name: 'CreateMultipartUpload',
  method: 'POST',
  target: 'object',
  query: ['uploads'],
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { request, caller, key, bucket, stored, exchange } = call
    assertMayWrite(call)
    const name = objectOf(call)
    const headers = writtenHeaders(request.header, request.headerNames(), key)
    refuseUnsupported(request.header, request.headerNames(), stored === 'public')
    const checksum = announcedChecksum(call)
    const rules = await listRules(services.db, caller.user.id)
    const terms = writeTerms(name, headers, caller, rules)
    if ((await readUsage(services.db, caller.user.id)).bytes > includedBytes(caller))
      throw new CodedError('STORAGE_QUOTA_EXCEEDED')
    exchange.resource = objectId(name)
    const upload = {
      owner_id: caller.user.id,
      wire: 's3',
      bucket: stored,
      key,
      overwrite: true,
      content_type: headers.contentType,
      cache_control: terms.cacheControl,
      content_disposition: headers.contentDisposition,
      original_name: null,
      metadata: headers.metadata,
      s3: { ...headers.s3, checksum },
      expires_at: expiryOf(terms),
      max_parts: s3Limits.parts,
      max_bytes: Math.min(terms.maxBytes, s3Limits.uploadBytes),
      upload_token_id: null,
    } as const
    const id = await ownTransaction(services.db, caller.user.id, trx => openUpload(trx, upload, s3Limits.openUploads))
    if (id === undefined)
      throw new S3Error('SlowDown', `The account has ${s3Limits.openUploads} open uploads. Complete or abort some.`)
    return xmlReply(
      'InitiateMultipartUploadResult',
      { Bucket: bucket, Key: key, UploadId: id },
      checksum && { 'x-amz-checksum-algorithm': checksum.algorithm, 'x-amz-checksum-type': checksum.type },
    )
  },
}

/** The checksum that the parts will have. Its type is COMPOSITE by default, as in S3, except for CRC64NVME, which has only FULL_OBJECT. */
function announcedChecksum(call: S3Call): UploadFacts['checksum'] {
  const requested = headerOf(call, 'x-amz-checksum-algorithm')
  const type = headerOf(call, 'x-amz-checksum-type')?.toUpperCase()
  if (requested === undefined) {
    if (type !== undefined)
      throw new S3Error('InvalidRequest', 'x-amz-checksum-type requires x-amz-checksum-algorithm.')
    return undefined
  }
  const algorithm = algorithmNamed(requested)
  if (!algorithm) throw new S3Error('InvalidRequest', 'Checksum algorithm provided is unsupported.')
  if (type !== undefined && type !== 'COMPOSITE' && type !== 'FULL_OBJECT')
    throw new S3Error('InvalidRequest', 'x-amz-checksum-type must be COMPOSITE or FULL_OBJECT.')
  const isSha = algorithm === 'SHA1' || algorithm === 'SHA256'
  if ((type === 'FULL_OBJECT' && isSha) || (type === 'COMPOSITE' && algorithm === 'CRC64NVME'))
    throw new S3Error('InvalidRequest', `The checksum type ${type} cannot be used with ${algorithm}.`)
  return { algorithm, type: type ?? (algorithm === 'CRC64NVME' ? 'FULL_OBJECT' : 'COMPOSITE') }
}
