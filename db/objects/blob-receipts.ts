import { idleReceiptDays, receiptDays, type Upkeep } from '../../policy/objects/blob-upkeep.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'

/** One thing that a run deleted or corrected. */
export interface ReceiptLine {
  ownerId: string | null
  /** Id of the object, the upload, the segment or the account. */
  subject: string
  why: string
  bytes: number
  /** Of an object; the check at the end looks for it. */
  generation?: string
  /** Segments that lost a reference by it. */
  segments?: readonly string[]
  /** What a check has already found. */
  proof?: string
}

/** Opens the receipt of a run; may be repeated. */
export async function openReceipt(db: Db, id: string, kind: Upkeep): Promise<void> {
  await db('blob_receipts').insert({ id, kind }).onConflict('id').ignore()
}

/** Call it in the transaction that deletes: the receipt of a killed run then lists everything it did. */
export async function writeReceiptLines(trx: Db, receiptId: string, lines: readonly ReceiptLine[]): Promise<void> {
  if (lines.length === 0) return
  await trx('blob_receipt_lines').insert(
    lines.map(({ ownerId, segments = [], proof = null, ...line }) => ({
      ...line,
      receipt_id: receiptId,
      owner_id: ownerId,
      segments: [...segments],
      proof,
      proved_at: proof === null ? null : trx.fn.now(),
    })),
  )
}

/** Lines that one statement checks: it ends long before the limit of a statement. */
const checkedAtOnce = 5000

const check = statement<{ last: string | null }>(
  'blob-receipts.check',
  `with batch as (select id from blob_receipt_lines where receipt_id = $1 and id > $2 order by id limit $3),
        checked as (
          update blob_receipt_lines l set proved_at = now(), proof = case
              when exists (select from objects o where o.generation = l.generation) then 'still there'
              when l.generation is not null then 'no such object'
              when exists (select from uploads u where u.id = l.subject and u.state = 'open') then 'still open'
              when exists (select from upload_parts p where p.upload_id = l.subject) then 'still has parts'
              else 'not open, without parts' end
            from batch b where l.id = b.id and l.proof is null)
   select max(id)::text as last from batch`,
)

/** Checks every object and upload that the run deleted, and records what is found; in batches, which a repeated call continues. */
export async function checkReceiptLines(db: Db, receiptId: string, atOnce = checkedAtOnce): Promise<void> {
  for (let after: string | null = '0'; after !== null; ) after = (await check(db, [receiptId, after, atOnce]))[0]!.last
}

/** Closes a receipt, with the reason when the run failed. */
export async function closeReceipt(db: Db, id: string, failure: string | null): Promise<void> {
  await db('blob_receipts').where({ id, ended_at: null }).update({ ended_at: db.fn.now(), failure })
}

/** A run as a line of a list. */
export interface ReceiptRow {
  id: string
  kind: Upkeep
  began_at: Date
  ended_at: Date | null
  failure: string | null
  removed: number
  bytes: number
  /** Lines whose check failed, or was never made. */
  unproved: number
}

const isUnproved = `l.proof like 'still%' or (l.proof is null and r.ended_at is not null)`

function summed(db: Db) {
  return db('blob_receipts as r')
    .leftJoin('blob_receipt_lines as l', 'l.receipt_id', 'r.id')
    .groupBy('r.id')
    .select('r.id', 'r.kind', 'r.began_at', 'r.ended_at', 'r.failure')
    .select(
      db.raw('count(l.id)::integer as removed'),
      db.raw('coalesce(sum(l.bytes), 0)::float8 as bytes'),
      db.raw(`count(l.id) filter (where ${isUnproved})::integer as unproved`),
    )
}

/** The newest runs; with `idle` also those that found nothing to do. */
export async function listReceipts(
  db: Db,
  { kind, idle, limit }: { kind?: Upkeep; idle: boolean; limit: number },
): Promise<ReceiptRow[]> {
  const rows = summed(db).orderBy('r.began_at', 'desc').limit(limit)
  if (kind) rows.where('r.kind', kind)
  if (!idle) rows.havingRaw('count(l.id) > 0 or r.failure is not null or r.ended_at is null')
  return rows
}

/** Runs whose id starts with `start`, newest first. */
export async function findReceipts(db: Db, start: string): Promise<ReceiptRow[]> {
  return summed(db).whereRaw('starts_with(r.id, ?)', [start]).orderBy('r.began_at', 'desc').limit(5)
}

export interface ReceiptLineRow {
  owner_id: string | null
  subject: string
  why: string
  bytes: number
  at: Date
  proof: string | null
  proved_at: Date | null
  /** Segments that lost a reference by it, and their current state. */
  bodies: { id: string; state: string }[]
}

export async function listReceiptLines(db: Db, receiptId: string, limit: number): Promise<ReceiptLineRow[]> {
  const { rows } = await db.raw(
    `select l.owner_id, l.subject, l.why, l.bytes::float8 as bytes, l.at, l.proof, l.proved_at, b.bodies
       from blob_receipt_lines l
       cross join lateral (
         select coalesce(json_agg(json_build_object('id', i.id, 'state', coalesce(
                  case when s.refs > 0 then 'in use elsewhere' when s.id is not null then 'waits for the sweep' end, 'gone'))), '[]')
                as bodies
           from unnest(l.segments) as i (id) left join segments s on s.id = i.id) b
      where l.receipt_id = ? order by l.id limit ?`,
    [receiptId, limit],
  )
  return rows
}

/** Deletes old receipts; those of runs that found nothing to do sooner. */
export async function sweepReceipts(db: Db): Promise<number> {
  const lines = await deleteExpired(db, {
    table: 'blob_receipt_lines',
    when: `exists (select from blob_receipts r
                    where r.id = old.receipt_id and r.began_at < now() - make_interval(days => :days))`,
    values: { days: receiptDays },
  })
  if (lines > 0) return lines
  return deleteExpired(db, {
    table: 'blob_receipts',
    when: `old.began_at < now() - make_interval(days => :days)
        or (old.began_at < now() - make_interval(days => :idleDays) and old.failure is null and old.ended_at is not null
            and not exists (select from blob_receipt_lines l where l.receipt_id = old.id))`,
    values: { days: receiptDays, idleDays: idleReceiptDays },
  })
}
