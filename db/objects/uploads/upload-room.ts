import type { Db } from '../../database.ts'
import { usageOf } from '../blob-usage.ts'
import { findObject } from '../objects.ts'
import { openBytes, type UploadRow } from './uploads.ts'

/** Bytes of the object in whose place an upload comes; 0 where there is none, or it may not replace. */
export async function replacedBytes(db: Db, { owner_id: ownerId, bucket, key, overwrite }: UploadRow): Promise<number> {
  return overwrite ? ((await findObject(db, { ownerId, bucket, key }))?.size ?? 0) : 0
}

/** Bytes that a part of an open upload may have beside all that its account keeps and sends; `limit` is what the account may keep. */
export async function roomFor(db: Db, upload: UploadRow, part: number, limit: number): Promise<number> {
  // In this order what is completed meanwhile is counted twice, and never not at all.
  const open = await openBytes(db, upload.owner_id, { uploadId: upload.id, part })
  const { bytes } = await usageOf(db, upload.owner_id)
  return limit + (await replacedBytes(db, upload)) - bytes - open
}
