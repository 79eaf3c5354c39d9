import { successor } from '../../policy/objects/key-ranges.ts'
import type { ListFilters, ListPosition } from '../../policy/objects/list-cursors.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { isObjectLive, type ObjectRow, objectColumns } from './object-rows.ts'

export interface ListQuery extends ListFilters {
  /** Objects and folders of a page. */
  limit: number
  /** The last entry of the previous page. */
  after?: ListPosition
}

export interface ListPage {
  objects: ObjectRow[]
  /** Prefixes of keys up to a delimiter, each once over all buckets. */
  folders: string[]
  /** Where the next page starts; undefined on the last one. */
  next?: ListPosition
}

/** The lowest key of bucket `b` after a position: no key sorts between a key and the same key with one more character. */
const firstKeyAfter = (at: string): string =>
  `case when ${at}.bucket is null or b.bucket > ${at}.bucket then ${at}.key else ${at}.key || e'\\x01' end`

/** $1 is the owner, $2 the buckets, $3 and $4 the range of keys. */
const entriesAfter = (at: string, limit: string): string =>
  `select o.object from unnest($2::text[]) as b (bucket) cross join lateral (
     select o as object from objects o
      where o.owner_id = $1 and o.bucket = b.bucket and o.key >= $3 and o.key < $4 and o.key >= ${firstKeyAfter(at)} and ${isObjectLive('o')}
      order by o.key limit ${limit}) o
    order by (o.object).key, (o.object).bucket limit ${limit}`

/** $5 and $6 are the position, $7 is the limit. */
const flat = statement<ObjectRow & { folder: null }>(
  'objects.list',
  `with at as (select $5::text as key, $6::text as bucket)
   select ${objectColumns('(object)')}, null as folder from at cross join lateral (${entriesAfter('at', '$7::integer')}) o
    order by (object).key, (object).bucket`,
)

/**
 * As `flat`, entry by entry: after each one the index is searched again, so that a folder costs one entry, whatever its size. $8 is the
 * delimiter, $9 its successor, which sorts after every key of a folder, $10 the length of the prefix in characters.
 */
const folded = statement<ObjectRow & { folder: string | null }>(
  'objects.list-folders',
  `with recursive entries as (
     select 0 as n, null::objects as object, null::text collate "C" as folder, $5::text collate "C" as key, $6::text as bucket
     union all
     select at.n + 1, e.object, f.folder, coalesce(left(f.folder, -length($8)) || $9, (e.object).key),
            case when f.folder is null then (e.object).bucket end
       from entries at
       cross join lateral (${entriesAfter('at', '1')}) e
       cross join lateral (select strpos(substr((e.object).key, $10::integer + 1), $8) as length) d
       cross join lateral (
         select case when d.length > 0 then left((e.object).key, $10 + d.length - 1 + length($8)) end as folder) f
      where at.n < $7::integer)
   select ${objectColumns('(object)')}, folder from entries where n > 0 order by n`,
)

/** Live objects of an account, of several buckets, sorted by the bytes of their keys; reads only the listed range of the index. */
export async function listObjects(db: Db, query: ListQuery): Promise<ListPage> {
  const { ownerId, buckets, prefix, delimiter, limit, after } = query
  const position = after && [after.bucket === null ? afterFolder(after.key, delimiter ?? '') : after.key, after.bucket]
  const values = [ownerId, buckets, prefix, successor(prefix), ...(position ?? ['', null]), limit + 1]
  const entries = delimiter
    ? await folded(db, [...values, delimiter, successor(delimiter), [...prefix].length])
    : await flat(db, values)
  const page = entries.slice(0, limit)
  const last = entries.length > limit ? page.at(-1) : undefined
  return {
    objects: page.filter(entry => entry.folder === null).map(({ folder, ...object }) => object),
    folders: page.map(entry => entry.folder).filter(folder => folder !== null),
    next: last && (last.folder === null ? { key: last.key, bucket: last.bucket } : { key: last.folder, bucket: null }),
  }
}

const afterFolder = (folder: string, delimiter: string): string =>
  folder.slice(0, folder.length - delimiter.length) + successor(delimiter)
