import { ApiError } from '../../policy/errors.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { columnsOf, isLive, lockNames, namesAsArrays, type ObjectRow } from './object-rows.ts'

/** Names that go, with every reference that they had; `$4` says whether only what has expired goes, or only what has not; null = either. */
const remove = statement<ObjectRow>(
  'objects.remove',
  `with gone as (
     delete from objects o using unnest($1::text[], $2::text[], $3::text[]) as n (owner_id, bucket, key)
      where o.owner_id = n.owner_id and o.bucket = n.bucket and o.key = n.key and ($4::boolean is null or ${isLive('o')} <> $4) returning o.*),
   parts as (delete from object_parts p using gone where p.generation = gone.generation returning p.segment_id),
   counted as (select segment_id, count(*)::integer as n from parts group by segment_id),
   held as materialized (
     select s.id from segments s where s.id in (select segment_id from counted) order by s.id for no key update),
   released as (
     update segments s set refs = s.refs - c.n, zero_since = case when s.refs = c.n then now() else s.zero_since end
       from counted c join held h on h.id = c.segment_id where s.id = c.segment_id),
   deltas as (
     insert into usage_deltas (owner_id, objects, bytes) select owner_id, -count(*), -sum(size) from gone group by owner_id)
   select ${columnsOf('gone')} from gone`,
)

/** Removes objects, final at once; the rows of those that were there and had not expired. Their bytes are swept later. */
export async function removeObjects(trx: Db, names: readonly ObjectName[]): Promise<ObjectRow[]> {
  await lockNames(trx, names)
  return remove(trx, [...namesAsArrays(names), false])
}

/** Removes one object; undefined where there is none. */
export async function removeObject(trx: Db, name: ObjectName): Promise<ObjectRow | undefined> {
  return (await removeObjects(trx, [name]))[0]
}

/** Tidies up names whose object has expired, judged anew under their locks; the rows that went. */
export async function removeExpired(trx: Db, names: readonly ObjectName[]): Promise<ObjectRow[]> {
  await lockNames(trx, names)
  return remove(trx, [...namesAsArrays(names), true])
}

const standing = statement<{ live: boolean }>(
  'objects.standing',
  `select ${isLive('o')} as live from objects o where o.owner_id = $1 and o.bucket = $2 and o.key = $3`,
)

/**
 * Makes room for what takes a name over in this transaction, which holds the name; true when an object that had not expired went.
 * Throws OBJECT_ALREADY_EXISTS where that may not be.
 */
export async function clearName(trx: Db, name: ObjectName, overwrite: boolean): Promise<boolean> {
  const [row] = await standing(trx, [name.ownerId, name.bucket, name.key])
  if (row?.live && !overwrite) throw new ApiError('OBJECT_ALREADY_EXISTS')
  if (row) await remove(trx, [...namesAsArrays([name]), null])
  return row?.live ?? false
}
