import { listPartsAfter } from '../../../db/objects/uploads/s3-uploads.ts'
import { checksumElement } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import { ownerElements, xmlReply } from '../answers.ts'
import { quotedEtag } from '../objects/object-views.ts'
import { type Operation, queryOf } from '../operation.ts'
import { pageSize } from '../pages.ts'
import { ownUpload } from './own-upload.ts'

export const listParts: Operation = {
  name: 'ListParts',
  method: 'GET',
  target: 'object',
  query: ['uploadId'],
  support: 'supported',
  needs: 'read',
  async handle(call, services) {
    const upload = await ownUpload(call, services)
    const size = pageSize(call, 'max-parts')
    const marker = queryOf(call, 'part-number-marker') || '0'
    if (!/^\d{1,10}$/.test(marker))
      throw new S3Error('InvalidArgument', 'part-number-marker must be a whole number from 0 on.')
    const after = Math.min(Number(marker), s3Limits.parts)
    const parts = await listPartsAfter(services.db, upload.id, after, size + 1)
    const page = parts.slice(0, size)
    const checksum = upload.s3?.checksum
    const owner = ownerElements(call.caller)
    return xmlReply('ListPartsResult', {
      Bucket: call.bucket,
      Key: call.key,
      UploadId: upload.id,
      Initiator: owner,
      Owner: owner,
      StorageClass: 'STANDARD',
      PartNumberMarker: marker,
      NextPartNumberMarker: page.at(-1)?.part ?? marker,
      MaxParts: size,
      IsTruncated: size > 0 && page.length < parts.length,
      ChecksumAlgorithm: checksum?.algorithm,
      ChecksumType: checksum?.type,
      Part: page.map(part => ({
        PartNumber: part.part,
        LastModified: part.created_at,
        ETag: quotedEtag(part.md5),
        Size: part.size,
        ...(checksum && { [checksumElement(checksum.algorithm)]: part.checksum }),
      })),
    })
  },
}
