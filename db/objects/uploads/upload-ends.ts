import { createHash } from 'node:crypto'
import type { UploadPart } from '../../../policy/objects/uploads/chunked.ts'
import { retentionTimes } from '../../../policy/retention.ts'
import type { StoredChecksum } from '../../../policy/s3/s3-facts.ts'
import type { Db } from '../../database.ts'
import { deleteExpired } from '../../expired-rows.ts'
import { type StoredObject, type StoreOptions, storeObject } from '../objects.ts'
import { dropUploadParts, listUploadParts } from './upload-parts.ts'
import { lockOpenUpload, type UploadResult, type UploadRow } from './uploads.ts'

export interface UploadCompletion {
  /** Picks the stored parts of the object, in their order; throws when they are refused. */
  choose(parts: readonly UploadPart[]): readonly UploadPart[]
  /** The checksum of the object; throws when it is not the one that the client sent. */
  checksum?(parts: readonly UploadPart[]): StoredChecksum | undefined
  options?: StoreOptions
}

/**
 * Makes the parts of an open upload an object; no bytes move. Undefined when the upload is not open, or not this account's. Throws as
 * `storeObject`, `choose` and `checksum` do, and then changes nothing.
 */
export async function completeUpload(
  trx: Db,
  { id, ownerId }: { id: string; ownerId: string },
  { choose, checksum, options = {} }: UploadCompletion,
): Promise<(StoredObject & { parts: number }) | undefined> {
  const upload = await lockOpenUpload(trx, id)
  if (upload?.owner_id !== ownerId) return undefined
  const parts = choose(await listUploadParts(trx, id))
  const newParts = parts.map(({ segmentId, size, md5, checksum }) => ({ segmentId, length: size, md5, checksum }))
  const object = objectOf(upload, parts, checksum?.(parts))
  const stored = await storeObject(trx, object, newParts, { overwrite: upload.overwrite, ...options })
  await dropUploadParts(trx, id)
  const result: UploadResult = { etag: object.etag, checksum: object.s3?.checksum }
  await endUpload(trx, id, { state: 'completed', result: JSON.stringify(result) })
  return { ...stored, parts: parts.length }
}

/** The object of an upload. Its etag is that of S3 for multipart uploads: the md5 of the parts' md5s, and their number. */
const objectOf = (upload: UploadRow, parts: readonly UploadPart[], checksum?: StoredChecksum) => ({
  ownerId: upload.owner_id,
  bucket: upload.bucket,
  key: upload.key,
  contentType: upload.content_type,
  etag: `${createHash('md5')
    .update(parts.map(part => part.md5).join(''), 'hex')
    .digest('hex')}-${parts.length}`,
  cacheControl: upload.cache_control,
  contentDisposition: upload.content_disposition,
  originalName: upload.original_name,
  metadata: upload.metadata,
  s3: upload.s3 && { ...upload.s3, checksum },
  expiresAt: expiryOf(upload),
})

/** A rule of the S3 wire counts from the object's creation, the Blob API from that of its upload, where it is a part of the name. */
function expiryOf({ wire, created_at, expires_at }: UploadRow): Date | null {
  if (wire === 'blob' || expires_at === null) return expires_at
  return new Date(Date.now() + expires_at.getTime() - created_at.getTime())
}

/** Ends an upload without an object; its parts are swept. May be repeated. Resolves to the upload's state; undefined for an unknown one. */
export async function abortUpload(
  trx: Db,
  { id, ownerId }: { id: string; ownerId: string },
): Promise<'aborted' | 'completed' | undefined> {
  const row = await trx('uploads').where({ id, owner_id: ownerId }).forUpdate().first('state')
  if (row?.state !== 'open') return row?.state
  await dropUploadParts(trx, id)
  await endUpload(trx, id, { state: 'aborted', why: 'asked' })
  return 'aborted'
}

/** An upload that was aborted because it was idle, with its parts. */
export interface ReclaimedUpload {
  upload: UploadRow
  parts: UploadPart[]
}

/** Open uploads that received no part for `idleSeconds`, the longest idle first. */
export async function listIdleUploads(db: Db, idleSeconds: number, limit = 500): Promise<string[]> {
  return db('uploads')
    .where({ state: 'open' })
    .whereRaw('last_activity_at < now() - make_interval(secs => ?)', [idleSeconds])
    .orderBy('last_activity_at')
    .limit(limit)
    .pluck('id')
}

/** Aborts an idle upload. Checks under its lock that it is still open and idle; undefined when it is not. */
export async function reclaimUpload(trx: Db, id: string, idleSeconds: number): Promise<ReclaimedUpload | undefined> {
  const upload = await lockOpenUpload(trx, id)
  const [idle] = await trx('uploads')
    .where({ id })
    .whereRaw('last_activity_at < now() - make_interval(secs => ?)', [idleSeconds])
    .select('id')
  if (!upload || !idle) return undefined
  const parts = await dropUploadParts(trx, id)
  await endUpload(trx, id, { state: 'aborted', why: 'idle' })
  return { upload, parts }
}

/** What an ended upload no longer needs: its object has it. */
const withoutHeaders = {
  ...{ content_type: '', cache_control: null, content_disposition: null, original_name: null },
  ...{ metadata: {}, s3: null },
}

async function endUpload(
  trx: Db,
  id: string,
  end: { state: 'completed'; result: string } | { state: 'aborted'; why: string },
): Promise<void> {
  await trx('uploads')
    .where({ id })
    .update({ ...end, ...withoutHeaders, ended_at: trx.fn.now() })
}

/** Deletes the rows of uploads that ended more than a week ago. */
export function sweepUploads(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'uploads',
    when: `old.state <> 'open' and old.ended_at < now() - interval '${retentionTimes.uploadDays} days'`,
  })
}
