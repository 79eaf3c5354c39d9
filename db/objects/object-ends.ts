import type { ObjectName } from '../../policy/objects/object-names.ts'
import { objectId } from '../../policy/objects/object-names.ts'
import { type Db, transaction } from '../database.ts'
import { type ReceiptLine, writeReceiptLines } from './blob-receipts.ts'
import { lockRules } from './blob-rules.ts'
import { type ObjectRow, objectNameOf } from './object-rows.ts'
import { lockNames, removeExpired, removeObjects } from './objects.ts'
import { listIdleUploads, reclaimUpload } from './uploads/upload-ends.ts'

// Deletions without a request: each candidate is checked again under its lock, so that a concurrent change wins.

/** Names that are deleted in one transaction. */
const batchSize = 100

type Candidate = Pick<ObjectRow, 'owner_id' | 'bucket' | 'key'>

/** Deletes a batch of expired objects; resolves to the number of candidates. */
export async function removeExpiredObjects(db: Db, receiptId: string): Promise<number> {
  const candidates: Candidate[] = await db('objects')
    .where('expires_at', '<=', db.fn.now())
    .orderBy('expires_at')
    .limit(batchSize)
    .select('owner_id', 'bucket', 'key')
  return remove(db, receiptId, candidates, async (trx, names) => {
    const segments = await segmentsOf(trx, names)
    const rows = await removeExpired(trx, names)
    return rows.map(row => lineOf(row, segments, `expired at ${row.expires_at?.toISOString()}`))
  })
}

/** Aborts a batch of chunked uploads that were idle for `idleSeconds`; resolves to the number of candidates. */
export async function reclaimIdleUploads(db: Db, receiptId: string, idleSeconds: number): Promise<number> {
  const ids = await listIdleUploads(db, idleSeconds, batchSize)
  for (const id of ids)
    await transaction(db, async trx => {
      const reclaimed = await reclaimUpload(trx, id, idleSeconds)
      if (!reclaimed) return
      const { upload, parts } = reclaimed
      const why = `idle since ${upload.last_activity_at.toISOString()}`
      const bytes = parts.reduce((sum, { size }) => sum + size, 0)
      const segments = parts.map(({ segmentId }) => segmentId)
      await writeReceiptLines(trx, receiptId, [{ ownerId: upload.owner_id, subject: id, why, bytes, segments }])
    })
  return ids.length
}

/** The progress of the walk of one rule. */
export interface RuleWalk {
  ownerId: string
  prefix: string
  bucket: 'public' | 'private'
  /** The last key that was checked. */
  after: string
}

/** Rules whose deletions are active, as walks at their start. Legacy objects have no rules. */
export async function listDeletingRules(db: Db): Promise<RuleWalk[]> {
  const rows = await db('blob_rules')
    .whereNotNull('delete_after_days')
    .where('active_from', '<=', db.fn.now())
    .orderBy(['owner_id', 'prefix'])
    .select('owner_id', 'prefix')
  return rows.flatMap(({ owner_id: ownerId, prefix }) =>
    (['public', 'private'] as const).map(bucket => ({ ownerId, prefix, bucket, after: prefix })),
  )
}

/** Keys that one step of a walk reads: a range of the index, even if few of them are due. */
const stepKeys = 5000

/** An object's rule has the longest prefix of its key; it deletes when it is active and the object is old enough. */
const rule = `lateral (
    select r.* from blob_rules r where r.owner_id = o.owner_id and starts_with(o.key, r.prefix)
     order by length(r.prefix) desc limit 1) rule
  on rule.active_from <= now() and o.created_at <= now() - make_interval(days => rule.delete_after_days)`

/** Reads the next keys of a rule and deletes the objects that are due; undefined at the end of its folder. */
export async function applyRule(db: Db, receiptId: string, walk: RuleWalk): Promise<RuleWalk | undefined> {
  const { ownerId, prefix, bucket, after } = walk
  // "0" is the character after "/", with which every prefix ends.
  const { rows } = await db.raw(
    `select o.key, rule.prefix is not null as due from objects o left join ${rule}
      where o.owner_id = ? and o.bucket = ? and o.key > ? and o.key < ? order by o.key limit ?`,
    [ownerId, bucket, after, `${prefix.slice(0, -1)}0`, stepKeys],
  )
  const candidates: Candidate[] = rows
    .filter((row: { due: boolean }) => row.due)
    .map(({ key }: Candidate) => ({ owner_id: ownerId, bucket, key }))
  for (let i = 0; i < candidates.length; i += batchSize)
    await remove(db, receiptId, candidates.slice(i, i + batchSize), async (trx, names) => {
      const due = await checkDue(trx, ownerId, names)
      const segments = await segmentsOf(trx, due.names)
      const rows = await removeObjects(trx, due.names)
      return rows.map(row => lineOf(row, segments, due.reasons.get(objectId(objectNameOf(row))) as string))
    })
  const last = rows.at(-1)?.key
  return rows.length < stepKeys ? undefined : { ...walk, after: last }
}

/** The names that are due, checked while rules and objects are locked: a concurrent change waits, or was made before. */
async function checkDue(trx: Db, ownerId: string, names: readonly ObjectName[]): Promise<DueObjects> {
  await lockRules(trx, ownerId)
  const { rows } = await trx.raw(
    `select o.owner_id, o.bucket, o.key, rule.prefix, rule.delete_after_days as days from objects o
       join unnest(?::text[], ?::text[], ?::text[]) as n (owner_id, bucket, key)
         on (o.owner_id, o.bucket, o.key) = (n.owner_id, n.bucket, n.key)
       join ${rule}`,
    [names.map(name => name.ownerId), names.map(name => name.bucket), names.map(name => name.key)],
  )
  const due = rows.map((row: ObjectRow & { prefix: string; days: number }) => ({
    name: objectNameOf(row),
    reason: `older than the ${row.days} days of the rule of ${row.prefix}`,
  }))
  return {
    names: due.map(({ name }: { name: ObjectName }) => name),
    reasons: new Map(due.map(({ name, reason }: { name: ObjectName; reason: string }) => [objectId(name), reason])),
  }
}

interface DueObjects {
  names: ObjectName[]
  /** By the object's id. */
  reasons: Map<string, string>
}

async function remove(
  db: Db,
  receiptId: string,
  candidates: readonly Candidate[],
  work: (trx: Db, names: ObjectName[]) => Promise<ReceiptLine[]>,
): Promise<number> {
  if (candidates.length === 0) return 0
  const names = candidates.map(({ owner_id: ownerId, bucket, key }) => ({ ownerId, bucket, key }))
  await transaction(db, async trx => {
    await lockNames(trx, names)
    await writeReceiptLines(trx, receiptId, await work(trx, names))
  })
  return candidates.length
}

/** The segments of objects, by generation. */
async function segmentsOf(trx: Db, names: readonly ObjectName[]): Promise<Map<string, string[]>> {
  const { rows } = await trx.raw(
    `select o.generation, array_agg(distinct p.segment_id) as segments
       from objects o join unnest(?::text[], ?::text[], ?::text[]) as n (owner_id, bucket, key) using (owner_id, bucket, key)
       join object_parts p on p.generation = o.generation group by o.generation`,
    [names.map(name => name.ownerId), names.map(name => name.bucket), names.map(name => name.key)],
  )
  return new Map(rows.map((row: { generation: string; segments: string[] }) => [row.generation, row.segments]))
}

function lineOf(row: ObjectRow, segments: Map<string, string[]>, why: string): ReceiptLine {
  const { generation, size: bytes, owner_id: ownerId } = row
  return { ownerId, subject: objectId(objectNameOf(row)), why, bytes, generation, segments: segments.get(generation) }
}
