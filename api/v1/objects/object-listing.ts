import type { Db } from '../../../db/database.ts'
import { type ListPage, type ListQuery, listObjects } from '../../../db/objects/object-lists.ts'
import type { ObjectRow } from '../../../db/objects/objects.ts'

/**
 * A page of what a credential may see. One that is limited to prefixes, and asks for no folder, sees what lies below them as if
 * nothing else were there.
 */
export function listWithin(db: Db, query: ListQuery, prefixes: readonly string[] | null): Promise<ListPage> {
  if (prefixes === null || query.prefix !== '') return listObjects(db, query)
  return query.delimiter ? topFolders(db, query, prefixes) : objectsBelow(db, query, prefixes)
}

/** Prefix after prefix, in the order of their bytes: folders take only characters of which a text's own order is that. */
async function objectsBelow(db: Db, query: ListQuery, prefixes: readonly string[]): Promise<ListPage> {
  const { limit } = query
  const objects: ObjectRow[] = []
  for (const prefix of outermost(prefixes)) {
    if (objects.length > limit) break
    objects.push(...(await listObjects(db, { ...query, prefix, limit: limit + 1 - objects.length })).objects)
  }
  const told = objects.slice(0, limit)
  const last = objects.length > limit ? told.at(-1) : undefined
  return { objects: told, folders: [], next: last && { key: last.key, bucket: last.bucket } }
}

/** At the root such a credential sees nothing but the folders that lead to its prefixes, where there is something below them. */
async function topFolders(db: Db, query: ListQuery, prefixes: readonly string[]): Promise<ListPage> {
  const found: string[] = []
  const top = new Set(prefixes.map(prefix => prefix.slice(0, prefix.indexOf('/') + 1)))
  for (const folder of [...top].sort()) {
    if (found.length > query.limit) break
    if (query.after && folder <= query.after.key) continue
    const below = prefixes.filter(prefix => prefix.startsWith(folder))
    const any = await objectsBelow(db, { ...query, delimiter: undefined, after: undefined, limit: 1 }, below)
    if (any.objects.length > 0) found.push(folder)
  }
  const folders = found.slice(0, query.limit)
  const last = found.length > query.limit ? folders.at(-1) : undefined
  return { objects: [], folders, next: last === undefined ? undefined : { key: last, bucket: null } }
}

/** Without those that lie below another. */
function outermost(prefixes: readonly string[]): string[] {
  return [...prefixes].sort().filter((prefix, at, all) => !all.slice(0, at).some(outer => prefix.startsWith(outer)))
}
