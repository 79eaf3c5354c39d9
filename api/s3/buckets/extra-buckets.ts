import { transaction } from '../../../db/database.ts'
import { createS3Bucket, deleteS3Bucket } from '../../../db/objects/s3-buckets.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { refuseUnsupported } from '../../../policy/s3/s3-headers.ts'
import { s3Limits } from '../../../policy/s3/s3-limits.ts'
import type { Services } from '../../services.ts'
import { emptyReply } from '../answers.ts'
import { receiveDocument } from '../bodies/document.ts'
import { assertMayWrite } from '../objects/write-object.ts'
import { headerOf, type Operation, type S3Call } from '../operation.ts'
import { isFixedBucket } from './named-bucket.ts'

/** 3 to 63 lower-case letters, digits, dots and hyphens, as S3 requires. */
const nameForm = /^(?!.*\.\.)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/

/** Only with S3_EXTRA_BUCKETS=on: further private buckets, which the Blob API does not see. */
export const createBucket: Operation = {
  name: 'CreateBucket',
  method: 'PUT',
  target: 'bucket',
  support: 'supported',
  needs: 'write',
  async handle(call, services) {
    const { bucket, caller, exchange } = call
    assertMayWrite(call)
    if (isFixedBucket(bucket)) throw new S3Error('BucketAlreadyOwnedByYou', undefined, { BucketName: bucket })
    demandExtraBuckets(services)
    if (!nameForm.test(bucket)) throw new S3Error('InvalidBucketName', undefined, { BucketName: bucket })
    demandWholeBuckets(caller)
    refuseUnsupported(call.request.header, call.request.headerNames(), false)
    if (headerOf(call, 'x-amz-bucket-object-lock-enabled')?.toLowerCase() === 'true')
      throw new S3Error('NotImplemented', 'Object lock is not supported.')
    // Regions are one: what the document says of it changes nothing, but it must be well-formed.
    if (Number(headerOf(call, 'content-length') ?? 0) > 0)
      await receiveDocument(call, 'CreateBucketConfiguration', services)
    exchange.resource = bucket
    const result = await transaction(services.db, trx =>
      createS3Bucket(trx, caller.user.id, bucket, s3Limits.extraBuckets),
    )
    if (result === 'exists') throw new S3Error('BucketAlreadyOwnedByYou', undefined, { BucketName: bucket })
    if (result === 'too many') throw new S3Error('TooManyBuckets')
    return emptyReply(200, { Location: `/${bucket}` })
  },
}

export const deleteBucket: Operation = {
  name: 'DeleteBucket',
  method: 'DELETE',
  target: 'bucket',
  support: 'supported',
  needs: 'write',
  async handle({ bucket, caller, exchange }, services) {
    if (isFixedBucket(bucket))
      throw new S3Error('AccessDenied', 'This bucket belongs to every account and cannot be deleted.')
    demandWholeBuckets(caller)
    exchange.resource = bucket
    const result = await transaction(services.db, trx => deleteS3Bucket(trx, caller.user.id, bucket))
    if (result === 'not empty') throw new S3Error('BucketNotEmpty', undefined, { BucketName: bucket })
    if (result === 'unknown') throw new S3Error('NoSuchBucket', undefined, { BucketName: bucket })
    return emptyReply(204)
  },
}

function demandWholeBuckets({ prefixes }: S3Call['caller']): void {
  if (prefixes !== null)
    throw new S3Error('AccessDenied', 'A key that is limited to prefixes can neither create nor delete buckets.')
}

function demandExtraBuckets({ config }: Services): void {
  if (!config.blob.s3.extraBuckets)
    throw new S3Error('AccessDenied', 'This platform has the buckets public, private and legacy only.')
}
