import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import type { BodyFacts } from './segments.ts'

/** A part of a new object. */
export interface NewObjectPart {
  segmentId: string
  /** Bytes of the segment from `segmentFrom` on. */
  length: number
  segmentFrom?: number
  md5?: string | null
  /** Base64, of the algorithm of the object's checksum. */
  checksum?: string | null
  /** Of a segment that was stored just now: facts that its row lacks. */
  body?: BodyFacts
  /** The bytes of a segment that is stored in its row and not in the object store; its id is not allocated yet. */
  bytes?: Buffer
}

const lock = statement<unknown>(
  'object-segments.lock',
  `select id from segments
    where id = any($1::text[]) or id in (select segment_id from object_parts where generation = any($2::text[]))
    order by id for no key update`,
)

const hold = statement<{ id: string }>(
  'object-segments.hold',
  `update segments s set state = 'stored', refs = s.refs + w.n, zero_since = null, size = coalesce(w.size, s.size),
          sha256 = coalesce(w.sha256, s.sha256), md5 = coalesce(w.md5, s.md5), crc32 = coalesce(w.crc32, s.crc32)
     from (select id, count(*)::integer as n, max(size) as size, max(sha256) as sha256, max(md5) as md5, max(crc32) as crc32
             from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[]) as p (id, size, sha256, md5, crc32)
            group by id) w
    where s.id = w.id and s.state in ('drawn', 'stored') returning s.id`,
)

const drop = statement<unknown>(
  'object-segments.drop',
  `with parts as (delete from object_parts where generation = any($1::text[]) returning segment_id),
        counted as (select segment_id, count(*)::integer as n from parts group by segment_id)
   update segments s set refs = s.refs - c.n, zero_since = case when s.refs = c.n then now() else null end
     from counted c where s.id = c.segment_id`,
)

const draw = statement<unknown>('object-segments.draw', 'insert into segments (id, bytes) values ($1, $2)')

/**
 * Takes one reference for each part, and drops the manifests of `goneGenerations` with their references. False when the sweep has taken
 * a segment: the caller must roll back.
 */
export async function holdSegments(
  trx: Db,
  parts: readonly NewObjectPart[],
  goneGenerations: readonly string[] = [],
): Promise<boolean> {
  const ids = parts.map(part => part.segmentId)
  for (const { segmentId, bytes } of parts) if (bytes) await draw(trx, [segmentId, bytes])
  await lock(trx, [ids, goneGenerations])
  const facts = (['size', 'sha256', 'md5', 'crc32'] as const).map(fact => parts.map(part => part.body?.[fact] ?? null))
  const held = await hold(trx, [ids, ...facts])
  if (held.length !== new Set(ids).size) return false
  if (goneGenerations.length > 0) await drop(trx, [goneGenerations])
  return true
}

const insertParts = statement<unknown>(
  'object-segments.manifest',
  `insert into object_parts (generation, position, segment_id, starts_at, segment_from, length, md5, checksum)
   select $1, p.position, p.segment_id, p.starts_at, p.segment_from, p.length, p.md5, p.checksum
     from unnest($2::integer[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[])
          as p (position, segment_id, starts_at, segment_from, length, md5, checksum)`,
)

/** Writes the manifest of a generation, in one statement for any number of parts. */
export async function writeManifest(trx: Db, generation: string, parts: readonly NewObjectPart[]): Promise<void> {
  let end = 0
  const starts = parts.map(part => {
    end += part.length
    return end - part.length
  })
  await insertParts(trx, [
    generation,
    parts.map((_, index) => index + 1),
    parts.map(part => part.segmentId),
    starts,
    parts.map(part => part.segmentFrom ?? 0),
    parts.map(part => part.length),
    parts.map(part => part.md5 ?? part.body?.md5 ?? null),
    parts.map(part => part.checksum ?? null),
  ])
}
