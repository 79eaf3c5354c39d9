import type { UploadPart } from '../../../policy/objects/uploads/chunked.ts'
import type { Db } from '../../database.ts'
import { statement } from '../../statement.ts'
import { attachSegment, type BodyFacts, releaseSegment, releaseSegments, shareSegment } from '../segments.ts'
import { readPart, readRoomBeside } from './upload-room.ts'
import { lockOpenUpload, lockUploads } from './uploads.ts'

/** A part, and when it was stored. */
export interface StoredUploadPart extends UploadPart {
  created_at: Date
}

const byUpload = statement<StoredUploadPart>(
  'upload-parts.of',
  `select part, segment_id as "segmentId", size::float8 as size, md5, checksum, created_at from upload_parts where upload_id = $1 order by part`,
)

/** The stored parts of an upload, in order. */
export const listUploadParts = (db: Db, uploadId: string): Promise<StoredUploadPart[]> => byUpload(db, [uploadId])

export interface NewUploadPart {
  uploadId: string
  part: number
  segmentId: string
  body: BodyFacts & { md5: string }
  checksum?: string | null
  /** True for a segment that belongs to an object already: a part copied from it without its bytes. */
  shared?: boolean
  /** Bytes that the account may store, including its open uploads; default: no limit. */
  limit?: number
}

/**
 * Makes a stored segment a part of an open upload; it replaces an earlier version of the part. The bytes must be durable already. Unless
 * the result is 'stored' the caller discards the segment: 'over' = the upload has ended, 'too large' = the whole upload would be,
 * 'no room' = the account would store too much, 'swept' = the sweep took the segment.
 */
export async function storeUploadPart(
  trx: Db,
  { uploadId, part, segmentId, body, checksum = null, shared = false, limit = Number.POSITIVE_INFINITY }: NewUploadPart,
): Promise<'stored' | 'over' | 'too large' | 'no room' | 'swept'> {
  const upload = await lockOpenUpload(trx, uploadId)
  if (!upload) return 'over'
  const before = await readPart(trx, uploadId, part)
  if (upload.part_bytes - (before?.size ?? 0) + body.size > upload.max_bytes) return 'too large'
  await lockUploads(trx, upload.owner_id) // so that concurrent parts are all counted
  if (body.size > (await readRoomBeside(trx, upload, before, limit))) return 'no room'
  if (!(await (shared ? shareSegment(trx, segmentId) : attachSegment(trx, segmentId, body, { partOnly: true }))))
    return 'swept'
  await trx('upload_parts')
    .insert({ upload_id: uploadId, part, segment_id: segmentId, size: body.size, md5: body.md5, checksum })
    .onConflict(['upload_id', 'part'])
    .merge({ segment_id: segmentId, size: body.size, md5: body.md5, checksum, created_at: trx.fn.now() })
  if (before) await releaseSegment(trx, before.segmentId)
  await trx('uploads').where({ id: uploadId }).update({ last_activity_at: trx.fn.now() })
  return 'stored'
}

/** Deletes the parts of an upload that has ended, and drops their references. */
export async function dropUploadParts(trx: Db, uploadId: string): Promise<UploadPart[]> {
  const parts = await listUploadParts(trx, uploadId)
  await trx('upload_parts').where({ upload_id: uploadId }).delete()
  await releaseSegments(
    trx,
    parts.map(part => part.segmentId),
  )
  return parts
}
