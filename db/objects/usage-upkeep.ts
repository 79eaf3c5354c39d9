import { type Db, transaction } from '../database.ts'
import { writeReceiptLines } from './blob-receipts.ts'
import { foldUsage, recountUsage } from './blob-usage.ts'

/** Accounts of one page, by id. */
const pageSize = 100

/**
 * Does `work` for every account of a list that is read in pages by id. One that fails does not stop the others; the first such failure is
 * thrown at the end.
 */
async function eachAccount(
  listAfter: (after: string) => Promise<readonly string[]>,
  work: (ownerId: string) => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = []
  for (let after: string | undefined = ''; after !== undefined; ) {
    const ids = await listAfter(after)
    for (const id of ids) await work(id).catch(error => failures.push(error))
    after = ids.at(-1)
  }
  if (failures.length > 0) throw failures[0]
}

/** Folds the deltas of all accounts into their sums. */
export async function foldAllUsage(db: Db): Promise<void> {
  const withDeltas = (after: string) =>
    db('usage_deltas')
      .distinct('owner_id')
      .where('owner_id', '>', after)
      .orderBy('owner_id')
      .limit(pageSize)
      .pluck('owner_id')
  await eachAccount(withDeltas, ownerId => transaction(db, trx => foldUsage(trx, ownerId)))
}

/** The bytes that an account has stored, by sum and deltas; `u` is an alias of blob_usage. */
const bytesNow = `u.bytes + coalesce((select sum(d.bytes) from usage_deltas d where d.owner_id = u.owner_id), 0)`

/**
 * Adds byte-seconds for every account since its last sample: a span across midnight is split by days (UTC). A change between two samples
 * counts from the later one.
 */
export async function sampleUsage(db: Db): Promise<void> {
  await transaction(db, trx =>
    trx.raw(
      `with due as (
         select u.owner_id, u.sampled_at, ${bytesNow} as bytes from blob_usage u
          where u.sampled_at < now() order by u.owner_id for no key update),
       spans as (
         select owner_id, (day at time zone 'UTC')::date as day,
                bytes * extract(epoch from least(now(), day + interval '24 hours') - greatest(sampled_at, day)) as byte_seconds
           from due cross join lateral
                generate_series(date_trunc('day', sampled_at, 'UTC'), now(), interval '24 hours') as day),
       noted as (
         insert into blob_usage_days as d (owner_id, day, byte_seconds)
           select owner_id, day, byte_seconds from spans
           on conflict (owner_id, day) do update set byte_seconds = d.byte_seconds + excluded.byte_seconds)
       update blob_usage u set sampled_at = now() from due where u.owner_id = due.owner_id`,
    ),
  )
}

export interface MonthUsage {
  objects: number
  /** Bytes. */
  storage: number
  /** Of the month so far (UTC), including today. */
  days: number
  /** Bytes, over the month so far. */
  averageStorage: number
}

/** What an account stores now, and on average since the start of the month. */
export async function readMonthUsage(db: Db, ownerId: string): Promise<MonthUsage> {
  const { rows } = await db.raw(
    `with u as (
       select coalesce(sum(objects), 0)::float8 as objects, coalesce(sum(bytes), 0)::float8 as bytes
         from (select objects, bytes from blob_usage where owner_id = :owner
               union all select objects, bytes from usage_deltas where owner_id = :owner) parts),
     m as (select date_trunc('month', now(), 'UTC') as began),
     noted as (
       select coalesce(sum(d.byte_seconds), 0)::float8 as byte_seconds from blob_usage_days d, m
        where d.owner_id = :owner and d.day >= (m.began at time zone 'UTC')::date),
     since as (
       select coalesce((select sampled_at from blob_usage where owner_id = :owner),
                       (select min(at) from usage_deltas where owner_id = :owner), now()) as at)
     select u.objects, u.bytes as storage, extract(day from now() at time zone 'UTC')::integer as days,
            (noted.byte_seconds + u.bytes * extract(epoch from now() - greatest(since.at, m.began))::float8)
              / greatest(extract(epoch from now() - m.began)::float8, 1) as average
       from u, m, noted, since`,
    { owner: ownerId },
  )
  const { objects, storage, days, average } = rows[0]
  return { objects, storage, days, averageStorage: average }
}

/**
 * Compares the counted usage of accounts with their objects, corrects differences, and writes a line for each corrected account; resolves
 * to their number.
 */
export async function recountAllUsage(db: Db, receiptId: string): Promise<number> {
  let repaired = 0
  const withUsage = async (after: string): Promise<string[]> => {
    const { rows } = await db.raw(
      `select id from users u where id > ? and (exists (select from blob_usage where owner_id = u.id)
          or exists (select from usage_deltas where owner_id = u.id) or exists (select from objects where owner_id = u.id))
        order by id limit ?`,
      [after, pageSize],
    )
    return rows.map(({ id }: { id: string }) => id)
  }
  await eachAccount(withUsage, async id => {
    if (await recountOne(db, receiptId, id)) repaired++
  })
  return repaired
}

async function recountOne(db: Db, receiptId: string, ownerId: string): Promise<boolean> {
  return transaction(db, async trx => {
    const off = await recountUsage(trx, ownerId)
    if (off.objects === 0 && off.bytes === 0) return false
    const why = `the usage was off by ${-off.objects} objects and ${-off.bytes} bytes`
    await writeReceiptLines(trx, receiptId, [
      { ownerId, subject: ownerId, why, bytes: off.bytes, proof: 'counted again' },
    ])
    return true
  })
}
