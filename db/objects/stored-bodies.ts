import { type Bucket, objectId } from '../../policy/objects/object-names.ts'
import type { Db } from '../database.ts'

/** What is known of a stored body. */
export interface StoredRow {
  id: string
  size: number
  sha256: string
  /** Bytes that lie beside the row, where the store has none; null where it has them. */
  beside: number | null
}

const columns = (db: Db) => ['id', 'sha256', db.raw('size::float8 as size'), db.raw('octet_length(bytes) as beside')]

/** Every stored body, by id. */
export async function* bodyRows(db: Db): AsyncGenerator<StoredRow> {
  for (let after = ''; ; ) {
    const rows: StoredRow[] = await db('segments')
      .where({ state: 'stored' })
      .where('id', '>', after)
      .orderBy('id')
      .limit(500)
      .select(columns(db))
    yield* rows
    if (rows.length === 0) return
    after = (rows.at(-1) as StoredRow).id
  }
}

/** A body that is stored now. */
export async function bodyRow(db: Db, id: string): Promise<StoredRow | undefined> {
  return db('segments').where({ id, state: 'stored' }).first(columns(db))
}

/** What the bytes beside a row hash to, in hex; undefined when it is gone. */
export async function hashBeside(db: Db, id: string): Promise<string | undefined> {
  const row = await db('segments').where({ id }).first(db.raw(`encode(sha256(bytes), 'hex') as sha256`))
  return row?.sha256
}

/** Which of these ids have a row, in whatever state. */
export async function knownBodies(db: Db, ids: readonly string[]): Promise<Set<string>> {
  return new Set(
    await db('segments')
      .whereRaw('id = any(?::text[])', [[...ids]])
      .pluck('id'),
  )
}

/** Ids of objects that a body is a part of. */
export async function ownersOf(db: Db, id: string): Promise<string[]> {
  const rows = await db('object_parts as p')
    .join('objects as o', 'o.generation', 'p.generation')
    .where('p.segment_id', id)
    .distinct('o.owner_id', 'o.bucket', 'o.key')
  return rows.map(({ owner_id: ownerId, bucket, key }: { owner_id: string; bucket: Bucket; key: string }) =>
    objectId({ ownerId, bucket, key }),
  )
}
