import { isS3Bucket } from '../../../db/objects/s3-buckets.ts'
import type { Bucket, ExtraBucket } from '../../../policy/objects/object-names.ts'
import { s3Buckets } from '../../../policy/objects/s3-credentials.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { Services } from '../../services.ts'

/** Whether a name is one of the buckets that every account has. */
export const isFixedBucket = (name: string): name is Bucket => (s3Buckets as readonly string[]).includes(name)

const extraBucket = (name: string): ExtraBucket => `x-${name}`

/** Where the objects of a bucket of this name are stored. Throws NoSuchBucket. */
export async function namedBucket(
  name: string,
  ownerId: string,
  { db, config }: Services,
): Promise<Bucket | ExtraBucket> {
  if (isFixedBucket(name)) return name
  if (config.blob.s3.extraBuckets && (await isS3Bucket(db, ownerId, name))) return extraBucket(name)
  throw new S3Error('NoSuchBucket', undefined, { BucketName: name })
}
