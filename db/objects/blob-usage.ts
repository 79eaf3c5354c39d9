import type { Db } from '../database.ts'
import { statement } from '../statement.ts'

/** What an account stores: objects, and bytes in them. */
export interface Usage {
  objects: number
  bytes: number
}

const used = statement<Usage>(
  'usage.of',
  `select (coalesce(u.objects, 0) + d.objects)::float8 as objects, (coalesce(u.bytes, 0) + d.bytes)::float8 as bytes
     from (select coalesce(sum(objects), 0) as objects, coalesce(sum(bytes), 0) as bytes from usage_deltas where owner_id = $1) d
     left join blob_usage u on u.owner_id = $1`,
)

/** The counted usage of an account: the folded sum and the deltas that are not folded yet. */
export async function readUsage(db: Db, ownerId: string): Promise<Usage> {
  return (await used(db, [ownerId]))[0]!
}

const summed = statement<Usage>(
  'usage.sum',
  `select count(*)::float8 as objects, coalesce(sum(size), 0)::float8 as bytes from objects where owner_id = $1`,
)

/** What an account really stores, summed over its rows; in every transaction it equals `readUsage`. */
export async function sumObjects(db: Db, ownerId: string): Promise<Usage> {
  return (await summed(db, [ownerId]))[0]!
}

/** Serializes folding and leasing for an account; uploads do not wait for it. */
async function lockUsage(trx: Db, ownerId: string): Promise<void> {
  await trx('blob_usage').insert({ owner_id: ownerId }).onConflict().ignore()
  await trx('blob_usage').where({ owner_id: ownerId }).forUpdate().first('owner_id')
}

const fold = statement<Usage>(
  'usage.fold',
  `with gone as (delete from usage_deltas where owner_id = $1 returning objects, bytes, lease_id, leased),
        settled as (
          update quota_leases l set bytes = l.bytes - g.leased
            from (select lease_id, sum(leased) as leased from gone where lease_id is not null group by lease_id) g
           where l.id = g.lease_id)
   update blob_usage set objects = objects + (select coalesce(sum(objects), 0) from gone),
          bytes = bytes + (select coalesce(sum(bytes), 0) from gone)
    where owner_id = $1 returning objects::float8 as objects, bytes::float8 as bytes`,
)

/** Adds the deltas to the sum, inside a transaction: cheap, and done whenever storage is leased. */
export async function foldUsage(trx: Db, ownerId: string): Promise<Usage> {
  await lockUsage(trx, ownerId)
  return (await fold(trx, [ownerId]))[0]!
}

const taken = statement<{ bytes: number }>(
  'usage.taken',
  `with leases as (select id, bytes from quota_leases where owner_id = $1 and expires_at > now()),
        deltas as (select bytes, leased, lease_id in (select id from leases) as spends from usage_deltas where owner_id = $1)
   select (coalesce((select bytes from blob_usage where owner_id = $1), 0)
        + coalesce((select sum(bytes) from leases), 0)
        + coalesce((select sum(bytes - case when spends then leased else 0 end) from deltas), 0))::float8 as bytes`,
)

/**
 * Bytes of an account that are stored, or leased and not spent. Read in one snapshot: a lease ends only after its writes are committed,
 * so a snapshot without the lease has the writes.
 */
export async function readTakenBytes(trx: Db, ownerId: string): Promise<number> {
  return (await taken(trx, [ownerId]))[0]!.bytes
}

/**
 * Corrects the sum to match the rows, in one transaction; resolves to the correction, which is zero unless rows were changed by hand.
 */
export async function recountUsage(trx: Db, ownerId: string): Promise<Usage> {
  await lockUsage(trx, ownerId)
  // One statement, one snapshot: an upload that commits meanwhile is in both sums or in neither.
  const { rows } = await trx.raw(
    `with kept as (select count(*) as objects, coalesce(sum(size), 0) as bytes from objects where owner_id = :ownerId),
          changed as (select coalesce(sum(objects), 0) as objects, coalesce(sum(bytes), 0) as bytes
                        from usage_deltas where owner_id = :ownerId)
     update blob_usage u set objects = kept.objects - changed.objects, bytes = kept.bytes - changed.bytes
       from kept, changed, blob_usage b where u.owner_id = :ownerId and b.owner_id = u.owner_id
     returning (u.objects - b.objects)::float8 as objects, (u.bytes - b.bytes)::float8 as bytes`,
    { ownerId },
  )
  return rows[0]
}
