import type { Db } from '../database.ts'
import { statement } from '../statement.ts'

/** An extra bucket of an account (contract 7.52). */
export interface S3BucketRow {
  name: string
  created_at: Date
}

const byOwner = statement<S3BucketRow>(
  's3-buckets.list',
  'select name, created_at from s3_buckets where owner_id = $1 order by name',
)

/** The extra buckets of an account, by name. */
export const listS3Buckets = (db: Db, ownerId: string): Promise<S3BucketRow[]> => byOwner(db, [ownerId])

const findBucket = statement<unknown>('s3-buckets.known', 'select 1 from s3_buckets where owner_id = $1 and name = $2')

export const isS3Bucket = async (db: Db, ownerId: string, name: string): Promise<boolean> =>
  (await findBucket(db, [ownerId, name])).length === 1

/** Locks the list of an account's extra buckets until the transaction ends. */
const lockBuckets = (trx: Db, ownerId: string) =>
  trx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`s3-buckets/${ownerId}`])

/** Creates an extra bucket, unless the account has `max` of them. */
export async function createS3Bucket(
  trx: Db,
  ownerId: string,
  name: string,
  max: number,
): Promise<'created' | 'exists' | 'too many'> {
  await lockBuckets(trx, ownerId)
  const buckets = await listS3Buckets(trx, ownerId)
  if (buckets.some(bucket => bucket.name === name)) return 'exists'
  if (buckets.length >= max) return 'too many'
  await trx('s3_buckets').insert({ owner_id: ownerId, name })
  return 'created'
}

/** Deletes an extra bucket that has neither objects nor open uploads. */
export async function deleteS3Bucket(
  trx: Db,
  ownerId: string,
  name: string,
): Promise<'deleted' | 'not empty' | 'unknown'> {
  // Writers hold the row of their bucket until they commit (migration 043), so none of them is missed here.
  const bucket = await trx('s3_buckets').where({ owner_id: ownerId, name }).forUpdate().first('name')
  if (!bucket) return 'unknown'
  const within = { owner_id: ownerId, bucket: `x-${name}` }
  if (await trx('objects').where(within).first('key')) return 'not empty'
  if (
    await trx('uploads')
      .where({ ...within, state: 'open' })
      .first('id')
  )
    return 'not empty'
  await trx('s3_buckets').where({ owner_id: ownerId, name }).delete()
  return 'deleted'
}
