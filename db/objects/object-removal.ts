import { CodedError } from '../../policy/errors.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { isObjectLive, lockNames, namesAsArrays, type ObjectRow, objectColumns } from './object-rows.ts'

/** Deletes objects by name, with their references. `$4`: true deletes only expired ones, false only live ones, null both. */
const remove = statement<ObjectRow>(
  'objects.remove',
  `with gone as (
     delete from objects o using unnest($1::text[], $2::text[], $3::text[]) as n (owner_id, bucket, key)
      where o.owner_id = n.owner_id and o.bucket = n.bucket and o.key = n.key and ($4::boolean is null or ${isObjectLive('o')} <> $4) returning o.*),
   parts as (delete from object_parts p using gone where p.generation = gone.generation returning p.segment_id),
   counted as (select segment_id, count(*)::integer as n from parts group by segment_id),
   held as materialized (
     select s.id from segments s where s.id in (select segment_id from counted) order by s.id for no key update),
   released as (
     update segments s set refs = s.refs - c.n, zero_since = case when s.refs = c.n then now() else s.zero_since end
       from counted c join held h on h.id = c.segment_id where s.id = c.segment_id),
   deltas as (
     insert into usage_deltas (owner_id, objects, bytes) select owner_id, -count(*), -sum(size) from gone group by owner_id)
   select ${objectColumns('gone')} from gone`,
)

/** Deletes objects; resolves to the rows of those that existed and had not expired. Their segments are swept later. */
export async function removeObjects(trx: Db, names: readonly ObjectName[]): Promise<ObjectRow[]> {
  await lockNames(trx, names)
  return remove(trx, [...namesAsArrays(names), false])
}

/** Deletes one object; undefined when there is none. */
export async function removeObject(trx: Db, name: ObjectName): Promise<ObjectRow | undefined> {
  return (await removeObjects(trx, [name]))[0]
}

/** Deletes objects that have expired, checked under their locks; resolves to the deleted rows. */
export async function removeExpiredNames(trx: Db, names: readonly ObjectName[]): Promise<ObjectRow[]> {
  await lockNames(trx, names)
  return remove(trx, [...namesAsArrays(names), true])
}

const isNameLive = statement<{ live: boolean }>(
  'objects.is-live',
  `select ${isObjectLive('o')} as live from objects o where o.owner_id = $1 and o.bucket = $2 and o.key = $3`,
)

/**
 * Deletes the object of a name that this transaction holds, so that another can take the name; true when it had not expired. Throws
 * OBJECT_ALREADY_EXISTS when that one must not be overwritten.
 */
export async function clearName(trx: Db, name: ObjectName, overwrite: boolean): Promise<boolean> {
  const [row] = await isNameLive(trx, [name.ownerId, name.bucket, name.key])
  if (row?.live && !overwrite) throw new CodedError('OBJECT_ALREADY_EXISTS')
  if (row) await remove(trx, [...namesAsArrays([name]), null])
  return row?.live ?? false
}
