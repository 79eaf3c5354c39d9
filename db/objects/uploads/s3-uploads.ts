import type { ObjectName } from '../../../policy/objects/object-names.ts'
import type { Db } from '../../database.ts'
import { statement } from '../../statement.ts'
import type { StoredUploadPart } from './upload-parts.ts'
import type { UploadResult } from './uploads.ts'

/** An open upload of the S3 wire, as a line of a list. */
export interface OpenS3Upload {
  id: string
  key: string
  created_at: Date
  s3: { checksum?: { algorithm: string; type: string } } | null
}

const open = statement<OpenS3Upload>(
  'uploads.list-s3',
  `select u.id, u.key, u.created_at, u.s3 from uploads u
    where u.owner_id = $1 and u.bucket = $2 and u.wire = 's3' and u.state = 'open'
      and u.key >= $3 and u.key < $4 and (u.key, u.id) > ($5, $6)
    order by u.key, u.id limit $7`,
)

export interface OpenUploadsQuery extends Pick<ObjectName, 'ownerId' | 'bucket'> {
  /** The range of keys: inclusive, exclusive. */
  from: string
  to: string
  /** The last one that was listed. */
  after: { key: string; id: string }
  limit: number
}

/** Open uploads of a bucket by key, then by id. */
export const listOpenS3Uploads = (db: Db, { ownerId, bucket, from, to, after, limit }: OpenUploadsQuery) =>
  open(db, [ownerId, bucket, from, to, after.key, after.id, limit])

const partsAfter = statement<StoredUploadPart>(
  'upload-parts.page',
  `select part, segment_id as "segmentId", size::float8 as size, md5, checksum, created_at from upload_parts
    where upload_id = $1 and part > $2 order by part limit $3`,
)

/** Parts of an upload with higher numbers than `after`, in order. */
export const listPartsAfter = (db: Db, uploadId: string, after: number, limit: number): Promise<StoredUploadPart[]> =>
  partsAfter(db, [uploadId, after, limit])

const completed = statement<{ result: UploadResult }>(
  'uploads.result',
  `select u.result from uploads u
    where u.id = $1 and u.owner_id = $2 and u.bucket = $3 and u.key = $4 and u.wire = 's3' and u.state = 'completed'`,
)

/** What the completion of an upload answered, for a client that did not get the answer; undefined when it was not completed. */
export async function findUploadResult(
  db: Db,
  id: string,
  { ownerId, bucket, key }: ObjectName,
): Promise<UploadResult | undefined> {
  return (await completed(db, [id, ownerId, bucket, key]))[0]?.result
}
