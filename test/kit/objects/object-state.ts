import type { Db } from '../../../db/database.ts'
import { statement } from '../../../db/statement.ts'
import type { Model } from './object-model.ts'

export interface Kept extends Model {
  /** Of the given segments, those that still exist. */
  segments: string[]
  /** Those that something refers to, and whose bytes the store has. */
  stored: string[]
  /** What must never be, in words. */
  wrong: string[]
}

interface Row {
  objects: (Model['objects'][string] & { name: string })[]
  uploads: (Model['uploads'][string] & { id: string })[]
  results: (Model['results'][string] & { id: string })[]
  segments: string[]
  stored: string[]
  wrong: string[]
}

const state = statement<{ state: Row }>(
  'test.object-state',
  `with parts as (
     select p.*, o.key from object_parts p left join objects o on o.generation = p.generation where p.segment_id = any($2)),
   refs as (
     select segment_id as id from parts union all select segment_id from upload_parts where segment_id = any($2)),
   wrong as (
     select 'refs of ' || s.id || ': ' || s.refs as what from segments s
      where s.id = any($2) and s.refs <> (select count(*) from refs where refs.id = s.id)
     union all select 'no object has the stretch of ' || segment_id from parts where key is null
     union all select 'not stored: ' || s.id from segments s join refs on refs.id = s.id where s.state <> 'stored'
     union all select 'leased still: ' || bytes from quota_leases where owner_id = $1
     union all select 'a place of ' || subject from blob_leases where subject = 'upload/' || $1::text
     union all select 'size of ' || o.key from objects o where o.owner_id = $1
        and o.size is distinct from (select sum(p.length) from parts p where p.generation = o.generation)
     union all select 'usage ' || u.objects || ' ' || u.bytes || ' for ' || s.objects || ' ' || s.bytes from
       (select sum(objects) as objects, sum(bytes) as bytes from (
          select objects, bytes from blob_usage where owner_id = $1
          union all select objects, bytes from usage_deltas where owner_id = $1 union all select 0, 0) x) u,
       (select count(*) as objects, coalesce(sum(size), 0) as bytes from objects where owner_id = $1) s
      where (u.objects, u.bytes) <> (s.objects, s.bytes))
   select json_build_object(
     'objects', (select coalesce(json_agg(json_build_object('name', bucket || ' ' || key, 'birth', birth, 'header', cache_control,
         'etag', etag, 'tag', s3->'tags'->>'n',
         'expired', coalesce(expires_at <= now(), false), 'segments',
         (select json_agg(p.segment_id order by p.position) from object_parts p where p.generation = o.generation))), '[]')
       from objects o where owner_id = $1),
     'uploads', (select coalesce(json_agg(json_build_object('id', id, 'name', bucket || ' ' || key, 'wire', wire, 'overwrite', overwrite, 'parts',
         (select coalesce(json_object_agg(p.part, p.segment_id), '{}') from upload_parts p where p.upload_id = u.id))), '[]')
       from uploads u where owner_id = $1 and state = 'open'),
     'results', (select coalesce(json_agg(json_build_object('id', id, 'name', bucket || ' ' || key, 'etag', result->>'etag')), '[]')
       from uploads where id = any($3) and state = 'completed' and wire = 's3'),
     'segments', (select coalesce(json_agg(id), '[]') from segments where id = any($2)),
     'stored', (select coalesce(json_agg(id), '[]') from segments where id = any($2) and refs > 0 and bytes is null),
     'wrong', (select coalesce(json_agg(what), '[]') from wrong)) as state`,
)

/** What an account really keeps, the results of these uploads, and whether references, sizes and usage agree with it. */
export async function keptBy(
  db: Db,
  ownerId: string,
  segments: readonly string[],
  uploadIds: readonly string[],
): Promise<Kept> {
  const [row] = await state(db, [ownerId, segments, uploadIds])
  const { objects, uploads, results, ...rest } = row!.state
  return {
    objects: Object.fromEntries(objects.map(({ name, ...object }) => [name, object])),
    uploads: Object.fromEntries(uploads.map(({ id, ...upload }) => [id, upload])),
    results: Object.fromEntries(results.map(({ id, ...result }) => [id, result])),
    ...rest,
  }
}
