import { successor } from '../../policy/objects/key-ranges.ts'
import type { ListFilters, ListPosition } from '../../policy/objects/list-cursors.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { columnsOf, isLive, type ObjectRow } from './object-rows.ts'

export interface ListQuery extends ListFilters {
  /** Objects and folders of a page. */
  limit: number
  /** The last that the page before told. */
  after?: ListPosition
}

export interface ListPage {
  objects: ObjectRow[]
  /** Beginnings of keys up to a delimiter, each once, whichever buckets have them. */
  folders: string[]
  /** Where the next page goes on; undefined on the last one. */
  next?: ListPosition
}

/** What of bucket `b` lies behind a position: nothing can stand between a key and the same with one more character. */
const behind = (at: string): string =>
  `case when ${at}.bucket is null or b.bucket > ${at}.bucket then ${at}.key else ${at}.key || e'\\x01' end`

/** $1 is the owner, $2 the buckets, $3 and $4 the range of keys. */
const firstBehind = (at: string, limit: string): string =>
  `select o.object from unnest($2::text[]) as b (bucket) cross join lateral (
     select o as object from objects o
      where o.owner_id = $1 and o.bucket = b.bucket and o.key >= $3 and o.key < $4 and o.key >= ${behind(at)} and ${isLive('o')}
      order by o.key limit ${limit}) o
    order by (o.object).key, (o.object).bucket limit ${limit}`

/** $5 and $6 are the position, $7 says how many. */
const flat = statement<ObjectRow & { folder: null }>(
  'objects.list',
  `with at as (select $5::text as key, $6::text as bucket)
   select ${columnsOf('(object)')}, null as folder from at cross join lateral (${firstBehind('at', '$7::integer')}) o
    order by (object).key, (object).bucket`,
)

/**
 * As `flat`, entry by entry: behind each the index is entered anew, so that a folder is one entry however much is in it. $8 is the
 * delimiter, $9 what no key of a folder reaches in its place, $10 how many characters the prefix has.
 */
const folded = statement<ObjectRow & { folder: string | null }>(
  'objects.list-folders',
  `with recursive entries as (
     select 0 as n, null::objects as object, null::text collate "C" as folder, $5::text collate "C" as key, $6::text as bucket
     union all
     select at.n + 1, e.object, f.folder, coalesce(left(f.folder, -length($8)) || $9, (e.object).key),
            case when f.folder is null then (e.object).bucket end
       from entries at
       cross join lateral (${firstBehind('at', '1')}) e
       cross join lateral (select strpos(substr((e.object).key, $10::integer + 1), $8) as length) d
       cross join lateral (
         select case when d.length > 0 then left((e.object).key, $10 + d.length - 1 + length($8)) end as folder) f
      where at.n < $7::integer)
   select ${columnsOf('(object)')}, folder from entries where n > 0 order by n`,
)

/** Live objects of an account by the bytes of their keys, of all its buckets at once: one range of the index, not what is beside it. */
export async function listObjects(db: Db, query: ListQuery): Promise<ListPage> {
  const { ownerId, buckets, prefix, delimiter, limit, after } = query
  const position = after && [after.bucket === null ? behindFolder(after.key, delimiter ?? '') : after.key, after.bucket]
  const values = [ownerId, buckets, prefix, successor(prefix), ...(position ?? ['', null]), limit + 1]
  const found = delimiter
    ? await folded(db, [...values, delimiter, successor(delimiter), [...prefix].length])
    : await flat(db, values)
  const told = found.slice(0, limit)
  const last = found.length > limit ? told.at(-1) : undefined
  return {
    objects: told.filter(entry => entry.folder === null).map(({ folder, ...object }) => object),
    folders: told.map(entry => entry.folder).filter(folder => folder !== null),
    next: last && (last.folder === null ? { key: last.key, bucket: last.bucket } : { key: last.folder, bucket: null }),
  }
}

const behindFolder = (folder: string, delimiter: string): string =>
  folder.slice(0, folder.length - delimiter.length) + successor(delimiter)
