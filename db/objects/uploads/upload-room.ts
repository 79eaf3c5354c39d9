import { CodedError } from '../../../policy/errors.ts'
import { maxOpenParts } from '../../../policy/objects/uploads/chunked.ts'
import type { Db } from '../../database.ts'
import { statement } from '../../statement.ts'
import { readUsage, type Usage } from '../blob-usage.ts'
import { findObject } from '../objects.ts'
import { readOpenParts, type UploadRow } from './uploads.ts'

/** Bytes of the object that an upload replaces; null when there is none, or it must not be replaced. */
export async function readReplacedBytes(
  db: Db,
  { owner_id: ownerId, bucket, key, overwrite }: UploadRow,
): Promise<number | null> {
  return overwrite ? ((await findObject(db, { ownerId, bucket, key }))?.size ?? null) : null
}

/**
 * Max bytes of a part of an open upload, given what its account stores and uploads; `limit` is what the account may store. Throws
 * TOO_MANY_OPEN_UPLOADS when its open uploads have too many parts.
 */
export async function readUploadRoom(db: Db, upload: UploadRow, part: number, limit: number): Promise<number> {
  return readRoomBeside(db, upload, await readPart(db, upload.id, part), limit)
}

/** As `readUploadRoom`, for a part that is sent again in place of `before`. */
export async function readRoomBeside(
  db: Db,
  upload: UploadRow,
  before: StoredPart | undefined,
  limit: number,
): Promise<number> {
  // In this order an upload that completes in between is counted twice, never zero times.
  const open = await readOpenParts(db, upload.owner_id)
  if (open.parts - (before ? 1 : 0) >= maxOpenParts)
    throw new CodedError(
      'TOO_MANY_OPEN_UPLOADS',
      `The open uploads of the account have ${maxOpenParts} parts. Complete or abort some.`,
    )
  const { bytes } = await readUsage(db, upload.owner_id)
  return limit + ((await readReplacedBytes(db, upload)) ?? 0) - bytes - open.bytes + (before?.size ?? 0)
}

/**
 * What leaves an account no room: its objects, and their bytes with those of the parts of its open uploads. For checks before a body is
 * sent: an upload that completes in between is missing, as a write counts exactly.
 */
export async function readHeld(db: Db, ownerId: string): Promise<Usage> {
  const { bytes, objects } = await readUsage(db, ownerId)
  return { bytes: bytes + (await readOpenParts(db, ownerId)).bytes, objects }
}

/** What a part has so far. */
interface StoredPart {
  segmentId: string
  size: number
}

const ofPart = statement<StoredPart>(
  'upload-parts.one',
  `select segment_id as "segmentId", size::float8 as size from upload_parts where upload_id = $1 and part = $2`,
)

/** The stored part of this number; undefined when there is none. */
export async function readPart(db: Db, uploadId: string, part: number): Promise<StoredPart | undefined> {
  return (await ofPart(db, [uploadId, part]))[0]
}
