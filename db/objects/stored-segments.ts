import { type Bucket, objectId } from '../../policy/objects/object-names.ts'
import type { Db } from '../database.ts'

/** A stored segment. */
export interface StoredSegmentRow {
  id: string
  size: number
  sha256: string
  /** Number of bytes stored in the row; null when the object store has them. */
  inlineBytes: number | null
}

const columns = (db: Db) => [
  'id',
  'sha256',
  db.raw('size::float8 as size'),
  db.raw('octet_length(bytes) as "inlineBytes"'),
]

/** Every stored segment, by id. */
export async function* listStoredSegments(db: Db): AsyncGenerator<StoredSegmentRow> {
  for (let after = ''; ; ) {
    const rows: StoredSegmentRow[] = await db('segments')
      .where({ state: 'stored' })
      .where('id', '>', after)
      .orderBy('id')
      .limit(500)
      .select(columns(db))
    yield* rows
    if (rows.length === 0) return
    after = (rows.at(-1) as StoredSegmentRow).id
  }
}

/** A stored segment; undefined when it is missing or not stored. */
export async function findStoredSegment(db: Db, id: string): Promise<StoredSegmentRow | undefined> {
  return db('segments').where({ id, state: 'stored' }).first(columns(db))
}

/** The SHA-256 of the bytes in a segment's row, in hex; undefined when the row is missing. */
export async function hashInlineBytes(db: Db, id: string): Promise<string | undefined> {
  const row = await db('segments').where({ id }).first(db.raw(`encode(sha256(bytes), 'hex') as sha256`))
  return row?.sha256
}

/** Those of these ids that have a row, in any state. */
export async function findKnownSegments(db: Db, ids: readonly string[]): Promise<Set<string>> {
  return new Set(
    await db('segments')
      .whereRaw('id = any(?::text[])', [[...ids]])
      .pluck('id'),
  )
}

/** Ids of the objects that a segment is part of. */
export async function listObjectsOfSegment(db: Db, id: string): Promise<string[]> {
  const rows = await db('object_parts as p')
    .join('objects as o', 'o.generation', 'p.generation')
    .where('p.segment_id', id)
    .distinct('o.owner_id', 'o.bucket', 'o.key')
  return rows.map(({ owner_id: ownerId, bucket, key }: { owner_id: string; bucket: Bucket; key: string }) =>
    objectId({ ownerId, bucket, key }),
  )
}
