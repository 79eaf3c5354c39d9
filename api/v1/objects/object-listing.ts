import type { Db } from '../../../db/database.ts'
import { type ListPage, type ListQuery, listObjects } from '../../../db/objects/object-lists.ts'
import type { ObjectRow } from '../../../db/objects/objects.ts'

/**
 * A page of the objects that a credential may see. A credential that is limited to prefixes, and lists no folder, sees what is below
 * its prefixes as if nothing else existed.
 */
export function listWithin(db: Db, query: ListQuery, prefixes: readonly string[] | null): Promise<ListPage> {
  if (prefixes === null || query.prefix !== '') return listObjects(db, query)
  return query.delimiter ? topFolders(db, query, prefixes) : objectsBelow(db, query, prefixes)
}

/** Prefix by prefix, in byte order, which is the order of JavaScript strings for the characters that folders may have. */
async function objectsBelow(db: Db, query: ListQuery, prefixes: readonly string[]): Promise<ListPage> {
  const { limit } = query
  const objects: ObjectRow[] = []
  for (const prefix of outermost(prefixes)) {
    if (objects.length > limit) break
    objects.push(...(await listObjects(db, { ...query, prefix, limit: limit + 1 - objects.length })).objects)
  }
  const page = objects.slice(0, limit)
  const last = objects.length > limit ? page.at(-1) : undefined
  return { objects: page, folders: [], next: last && { key: last.key, bucket: last.bucket } }
}

/** At the root such a credential sees only the non-empty folders that lead to its prefixes. */
async function topFolders(db: Db, query: ListQuery, prefixes: readonly string[]): Promise<ListPage> {
  const nonEmpty: string[] = []
  const top = new Set(prefixes.map(prefix => prefix.slice(0, prefix.indexOf('/') + 1)))
  for (const folder of [...top].sort()) {
    if (nonEmpty.length > query.limit) break
    if (query.after && folder <= query.after.key) continue
    const below = prefixes.filter(prefix => prefix.startsWith(folder))
    const { objects } = await objectsBelow(db, { ...query, delimiter: undefined, after: undefined, limit: 1 }, below)
    if (objects.length > 0) nonEmpty.push(folder)
  }
  const folders = nonEmpty.slice(0, query.limit)
  const last = nonEmpty.length > query.limit ? folders.at(-1) : undefined
  return { objects: [], folders, next: last === undefined ? undefined : { key: last, bucket: null } }
}

/** The prefixes that are not below another one. */
function outermost(prefixes: readonly string[]): string[] {
  return [...prefixes].sort().filter((prefix, at, all) => !all.slice(0, at).some(outer => prefix.startsWith(outer)))
}
