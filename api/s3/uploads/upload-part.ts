import { readUploadRoom } from '../../../db/objects/uploads/upload-room.ts'
import type { UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { CodedError } from '../../../policy/errors.ts'
import { unavailableStorage } from '../../../policy/objects/object-names.ts'
import { checksumHeader } from '../../../policy/s3/s3-checksums.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import type { Services } from '../../services.ts'
import { includedBytes } from '../../uploads/storage-charge.ts'
import { emptyReply } from '../answers.ts'
import { payloadOf, type SizedPayload } from '../bodies/payload.ts'
import { discardingOnFailure, receivePayload } from '../bodies/receive.ts'
import { quotedEtag } from '../objects/object-views.ts'
import { inUploadSlot } from '../objects/upload-slots.ts'
import { assertMayWrite } from '../objects/write-object.ts'
import type { Operation, S3Call } from '../operation.ts'
import { stillMayWrite } from '../rights.ts'
import { ownUpload, partNumberOf } from './own-upload.ts'
import { storePart } from './store-part.ts'

/** A part that is sent again replaces the one before, also if both arrive concurrently: the last commit wins. */
export const uploadPart: Operation = {
  name: 'UploadPart',
  method: 'PUT',
  target: 'object',
  query: ['partNumber', 'uploadId'],
  support: 'supported',
  needs: 'write',
  unrecorded: true,
  async handle(call, services) {
    const { request, exchange, stored } = call
    assertMayWrite(call)
    const number = partNumberOf(call)
    const upload = await ownUpload(call, services)
    const payload = withAnnounced(payloadOf(request, call.authorization, call.signer), upload)
    const maxBytes = await assertPartRoom(payload.length, upload, number, call, services)
    return inUploadSlot(call, services, async () => {
      const rules = {
        ownerId: upload.owner_id,
        maxBytes,
        tooLarge: 'FILE_TOO_LARGE',
        unstored: unavailableStorage(stored),
      } as const
      const { arrived, checksum } = await receivePayload(exchange, services, payload, rules)
      const { segmentId, bytes: _, ...body } = arrived
      await discardingOnFailure(services, arrived, async () => {
        await stillMayWrite(exchange, call.authorization.accessKeyId, services)
        const part = { uploadId: upload.id, part: number, segmentId, body, checksum: checksum?.value }
        await storePart(part, call, services)
      })
      const shown = checksum && { [checksumHeader(checksum.algorithm)]: checksum.value }
      return emptyReply(200, { ETag: quotedEtag(body.md5), ...shown })
    })
  },
}

/**
 * Every part of an upload that announced a checksum must have it, because that of the object is made of them; for a part that is sent
 * without one it is calculated.
 */
function withAnnounced(payload: SizedPayload, { s3 }: UploadRow): SizedPayload {
  const announced = s3?.checksum?.algorithm
  const { checksum } = payload
  if (announced === undefined || checksum?.algorithm === announced) return payload
  if (checksum === null) return { ...payload, checksum: { algorithm: announced, value: null, isStated: false } }
  throw new S3Error(
    'InvalidRequest',
    `Checksum Type mismatch occurred, expected checksum Type: ${announced.toLowerCase()}, actual checksum Type: ${checksum.algorithm.toLowerCase()}`,
  )
}

/** The max bytes of a part; all open uploads of the account must fit into its storage. Throws QuotaExceeded. */
export async function assertPartRoom(
  bytes: number,
  upload: UploadRow,
  part: number,
  { caller }: S3Call,
  { db }: Services,
): Promise<number> {
  if (bytes > (await readUploadRoom(db, upload, part, includedBytes(caller))))
    throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  return Math.min(s3Limits.putBytes, upload.max_bytes)
}
