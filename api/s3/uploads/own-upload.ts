import { findUpload, type UploadRow } from '../../../db/objects/uploads/uploads.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import type { Services } from '../../services.ts'
import { objectOf, queryOf, type S3Call } from '../operation.ts'

const idForm = /^[0-9a-f]{32}$/

/** The upload id of a request. Throws NoSuchUpload for one that no upload can have. */
export function uploadIdOf(call: S3Call): string {
  const id = queryOf(call, 'uploadId') ?? ''
  if (!idForm.test(id)) throw noSuchUpload(id)
  return id
}

/** The open upload that a request names, with its key. Throws NoSuchUpload. */
export async function ownUpload(call: S3Call, { db }: Services): Promise<UploadRow> {
  const name = objectOf(call)
  const id = uploadIdOf(call)
  const upload = await findUpload(db, id, name.ownerId, 's3')
  if (upload?.bucket !== name.bucket || upload.key !== name.key) throw noSuchUpload(id)
  return upload
}

export const noSuchUpload = (id: string): S3Error => new S3Error('NoSuchUpload', undefined, { UploadId: id })

/** The number of a part. Throws InvalidArgument. */
export function partNumberOf(call: S3Call): number {
  const text = queryOf(call, 'partNumber') ?? ''
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (number < 1 || number > s3Limits.parts)
    throw new S3Error('InvalidArgument', `partNumber must be a whole number from 1 to ${s3Limits.parts}.`)
  return number
}
