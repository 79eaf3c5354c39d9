import { ownTransaction } from '../../../db/locked-slots.ts'
import type { NewUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { CodedError } from '../../../policy/errors.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { Services } from '../../services.ts'
import { includedBytes } from '../../uploads/storage-charge.ts'
import type { S3Call } from '../operation.ts'
import { noSuchUpload } from './own-upload.ts'

/** Makes stored bytes a part of an upload. Throws NoSuchUpload, EntityTooLarge, QuotaExceeded and InternalError. */
export async function storePart(part: NewUploadPart, { caller }: S3Call, { db }: Services): Promise<void> {
  const outcome = await ownTransaction(db, caller.user.id, trx =>
    storeUploadPart(trx, { ...part, limit: includedBytes(caller) }),
  )
  if (outcome === 'over') throw noSuchUpload(part.uploadId)
  if (outcome === 'too large') throw new S3Error('EntityTooLarge')
  if (outcome === 'no room') throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  if (outcome === 'swept') throw new S3Error('InternalError')
}
