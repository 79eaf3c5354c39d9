import { Readable } from 'node:stream'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { type Db, transaction } from '../../../db/database.ts'
import { saveRules } from '../../../db/objects/blob-rules.ts'
import * as segments from '../../../db/objects/segments.ts'
import { storeUploadPart } from '../../../db/objects/uploads/upload-parts.ts'
import { openUpload } from '../../../db/objects/uploads/uploads.ts'
import { newId } from '../../../policy/ids.ts'
import type { RuleFields } from '../../../policy/objects/blob-rules.ts'
import { type UpkeepTimes, upkeepTimes } from '../../../policy/objects/blob-upkeep.ts'
import { rows } from '../rows/rows.ts'
import { drawnPart, put } from './objects.ts'

const daySeconds = 24 * 3600
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000)

/** Nothing is left alone. */
export const shortTimes: UpkeepTimes = {
  idleSeconds: 0,
  drawnSeconds: 0,
  unreferencedSeconds: 0,
  downloadSeconds: 0,
  retrySeconds: 0,
}

/** An account whose storage has something to do for every kind of upkeep, so many of each. */
export async function untidyAccount(db: Db, store: ObjectStore, count: number) {
  const { id: ownerId } = await rows(db).user()
  const numbers = Array.from({ length: count }, (_, n) => String(n).padStart(5, '0'))
  const each = async <T>(work: (n: string) => Promise<T>) => {
    const made: T[] = []
    while (made.length < count) made.push(...(await Promise.all(numbers.slice(made.length, made.length + 5).map(work))))
    return made
  }
  const name = (key: string) => ({ ownerId, bucket: 'public' as const, key })
  await each(n => put(db, name(`expired/${n}`), n))
  await db('objects')
    .where({ owner_id: ownerId })
    .update({ expires_at: ago(60) })
  await each(n => put(db, name(`logs/${n}`), n))
  await db('objects')
    .where({ owner_id: ownerId })
    .whereLike('key', 'logs/%')
    .update({ created_at: ago(8 * daySeconds) })
  await saveRules(db, ownerId, [rule('logs/', { delete_after_days: 7 })])
  await db('blob_rules')
    .where({ owner_id: ownerId })
    .update({ active_from: ago(daySeconds) })
  await put(db, name('kept.txt'), 'kept')
  const uploads = await each(n => idleUpload(db, ownerId, n))
  const bodies = await each(async n => {
    const id = await segments.allocateSegment(db)
    await store.put(id, Readable.from(n))
    return id
  })
  await db('segments')
    .whereIn('id', bodies)
    .update({ drawn_at: ago(upkeepTimes.drawnSeconds + 2 * daySeconds) })
  return { ownerId, name, uploads, bodies }
}

/** A rule that says nothing but what it is given. */
export const rule = (prefix: string, fields: Partial<RuleFields> = {}): RuleFields => ({
  prefix,
  private: null,
  expire: null,
  max_size: null,
  extensions: null,
  cache_control: null,
  delete_after_days: null,
  ...fields,
})

/** A chunked upload without parts. */
export async function openedUpload(db: Db, ownerId: string, key: string): Promise<string> {
  const upload = {
    owner_id: ownerId,
    wire: 'blob' as const,
    bucket: 'public' as const,
    key,
    overwrite: false,
    content_type: 'text/plain',
    cache_control: null,
    content_disposition: null,
    original_name: null,
    metadata: {},
    s3: null,
    expires_at: null,
    max_parts: 10,
    max_bytes: 1000,
    upload_token_id: null,
  }
  return (await transaction(db, trx => openUpload(trx, upload, 100_000)))!
}

/** A chunked upload with one part that has been idle for two days. */
export async function idleUpload(db: Db, ownerId: string, key = newId()): Promise<string> {
  const id = await openedUpload(db, ownerId, key)
  const { segmentId, body } = await drawnPart(db, 'part')
  await transaction(db, trx =>
    storeUploadPart(trx, { uploadId: id, part: 1, segmentId, body: { ...body, md5: body.md5 as string } }),
  )
  await db('uploads')
    .where({ id })
    .update({ last_activity_at: ago(2 * daySeconds) })
  return id
}

/** How often each subject occurs in the receipts. */
export async function linesBySubject(db: Db, subjects: readonly string[]): Promise<Map<string, number>> {
  const found = await db('blob_receipt_lines')
    .whereIn('subject', [...subjects])
    .groupBy('subject')
    .select('subject', db.raw('count(*)::integer as n'))
  return new Map(found.map(({ subject, n }) => [subject, n]))
}
