import { ownTransaction } from '../../../db/locked-slots.ts'
import type { StorageCharge } from '../../../db/objects/objects.ts'
import { findUploadResult } from '../../../db/objects/uploads/s3-uploads.ts'
import { completeUpload as completeRow } from '../../../db/objects/uploads/upload-ends.ts'
import { listUploadParts } from '../../../db/objects/uploads/upload-parts.ts'
import { findUpload, lockOpenUpload, type UploadResult, type UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { type CrcAlgorithm, checksum as checksumFrom, combinedChecksum } from '../../../lib/checksums.ts'
import { objectId } from '../../../policy/objects/object-names.ts'
import type { UploadPart } from '../../../policy/objects/uploads/chunked.ts'
import { writeConditions } from '../../../policy/s3/s3-conditions.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import type { Reply } from '../../http/respond.ts'
import { entryOf } from '../../pipeline/audit.ts'
import type { Services } from '../../services.ts'
import { xmlReply } from '../answers.ts'
import { receiveDocument } from '../bodies/document.ts'
import { checksumElements, expirationHeaders, quotedEtag } from '../objects/object-views.ts'
import { assertMayWrite, isShort, reservingFor } from '../objects/write-object.ts'
import { headerOf, type Operation, objectOf, type S3Call } from '../operation.ts'
import { chooseParts, listedParts } from './listed-parts.ts'
import { noSuchUpload, uploadIdOf } from './own-upload.ts'

/** The parts become the object in one transaction; no byte moves. Repeating it gives the same answer, as the first one may have been lost. */
export const completeMultipartUpload: Operation = {
  name: 'CompleteMultipartUpload',
  method: 'POST',
  target: 'object',
  query: ['uploadId'],
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { request, caller, exchange } = call
    assertMayWrite(call)
    const name = objectOf(call)
    const id = uploadIdOf(call)
    const listed = listedParts(await receiveDocument(withoutChecksums(call), 'CompleteMultipartUpload', services))
    const conditions = writeConditions(request.header)
    const upload = await findUpload(services.db, id, caller.user.id, 's3')
    if (upload?.bucket !== name.bucket || upload.key !== name.key) return repeated(call, id, services)
    const choose = (stored: readonly UploadPart[]) => chooseParts(listed, stored, upload)
    const parts = await listUploadParts(services.db, id)
    // Another completion may have ended the upload since it was found, and taken its parts.
    if (parts.length === 0 && listed.length > 0 && !(await findUpload(services.db, id, caller.user.id, 's3')))
      return repeated(call, id, services)
    const size = choose(parts).reduce((sum, part) => sum + part.size, 0)
    assertSize(call, size)
    const checksum = (chosen: readonly UploadPart[]) => objectChecksum(call, upload, chosen)
    exchange.resource = objectId(name)
    const ending = { entry: entryOf('s3.CompleteMultipartUpload', { caller }, exchange, 'success') }
    const write = (charge: StorageCharge) => {
      const options = { ...conditions, charge, ending }
      return ownTransaction(services.db, caller.user.id, trx =>
        completeRow(trx, { id, ownerId: caller.user.id }, { choose, checksum, options }),
      )
    }
    const completion = await reservingFor(size, name, caller, services, write, id).catch(async error => {
      // An earlier attempt that is not answered yet has reserved the room: its outcome is that of this one.
      const isEnded =
        isShort(error) && !(await ownTransaction(services.db, caller.user.id, trx => lockOpenUpload(trx, id)))
      if (!isEnded) throw error
      return undefined
    })
    if (!completion) return repeated(call, id, services)
    exchange.recorded = true
    const { object } = completion
    return completed(call, { etag: object.etag, checksum: object.s3?.checksum }, services, expirationHeaders(object))
  },
}

/** The checksum in the headers is that of the object, not of the document. */
const withoutChecksums = (call: S3Call): S3Call => {
  const names = [...call.request.headerNames()].filter(name => !name.startsWith(checksumPrefix))
  return { ...call, request: { ...call.request, headerNames: () => names } }
}

const checksumPrefix = 'x-amz-checksum-'

async function repeated(call: S3Call, id: string, services: Services): Promise<Reply> {
  const result = await findUploadResult(services.db, id, objectOf(call))
  if (!result) throw noSuchUpload(id)
  call.exchange.recorded = true
  return completed(call, result, services)
}

function completed(
  { bucket, key }: S3Call,
  { etag, checksum }: UploadResult,
  { config }: Services,
  headers: Record<string, string> = {},
): Reply {
  const path = key.split('/').map(encodeURIComponent).join('/')
  const content = { Location: `${config.urls.s3}/${bucket}/${path}`, Bucket: bucket, Key: key, ETag: quotedEtag(etag) }
  return xmlReply('CompleteMultipartUploadResult', { ...content, ...checksumElements(checksum) }, headers)
}

function assertSize(call: S3Call, size: number): void {
  const stated = headerOf(call, 'x-amz-mp-object-size')
  if (stated !== undefined && stated !== String(size))
    throw new S3Error('InvalidRequest', `The parts have ${size} bytes, not the ${stated} of x-amz-mp-object-size.`)
}

/**
 * The checksum of the object from those of its parts: of all bytes for FULL_OBJECT, of the digests for COMPOSITE. Undefined when the upload
 * announced none. Throws BadDigest when the client states another one, and InvalidRequest for one that was not announced.
 */
function objectChecksum(call: S3Call, { s3 }: UploadRow, parts: readonly UploadPart[]): StoredChecksum | undefined {
  const announced = s3?.checksum
  const type = headerOf(call, 'x-amz-checksum-type')?.toUpperCase()
  const expected = announced && checksumPrefix + announced.algorithm.toLowerCase()
  for (const name of call.request.headerNames())
    if (name.startsWith(checksumPrefix) && name !== `${checksumPrefix}type` && name !== expected)
      throw new S3Error('InvalidRequest', `The upload was created without ${name}.`)
  if (!announced) return undefined
  if (type !== undefined && type !== announced.type)
    throw new S3Error('InvalidRequest', `The upload was created with the checksum type ${announced.type}.`)
  const digests = parts.map(({ checksum, size }) => ({ digest: Buffer.from(checksum!, 'base64'), size }))
  const { algorithm } = announced
  const value =
    announced.type === 'FULL_OBJECT'
      ? combinedChecksum(algorithm as CrcAlgorithm, digests).toString('base64')
      : composite(algorithm, digests)
  const stated = headerOf(call, expected!)
  // Clients state a composite checksum with the number of parts, or without.
  if (stated !== undefined && stated !== value && stated !== value.split('-')[0])
    throw new S3Error('BadDigest', `The ${algorithm} that was sent is not that of the parts.`)
  return { algorithm, type: announced.type, value }
}

function composite(algorithm: StoredChecksum['algorithm'], digests: readonly { digest: Buffer }[]): string {
  const sum = checksumFrom(algorithm)
  for (const { digest } of digests) sum.update(digest)
  return `${sum.digest().toString('base64')}-${digests.length}`
}
