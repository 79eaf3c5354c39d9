import type { Db } from '../../database.ts'
import { readUsage } from '../blob-usage.ts'
import { findObject } from '../objects.ts'
import { readOpenBytes, type UploadRow } from './uploads.ts'

/** Bytes of the object that an upload replaces; 0 when there is none, or it must not be replaced. */
export async function readReplacedBytes(
  db: Db,
  { owner_id: ownerId, bucket, key, overwrite }: UploadRow,
): Promise<number> {
  return overwrite ? ((await findObject(db, { ownerId, bucket, key }))?.size ?? 0) : 0
}

/** Max bytes of a part of an open upload, given what its account stores and uploads; `limit` is what the account may store. */
export async function readUploadRoom(db: Db, upload: UploadRow, part: number, limit: number): Promise<number> {
  // In this order an upload that completes in between is counted twice, never zero times.
  const open = await readOpenBytes(db, upload.owner_id, { uploadId: upload.id, part })
  const { bytes } = await readUsage(db, upload.owner_id)
  return limit + (await readReplacedBytes(db, upload)) - bytes - open
}
