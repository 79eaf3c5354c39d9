import type { ObjectName } from '../policy/object-names.ts'
import type { Db } from './database.ts'
import { columnsOf, isLive, type ObjectRow } from './object-rows.ts'
import { statement } from './statement.ts'

/** A stretch of an object, and where its bytes lie. */
export interface ManifestPart {
  segmentId: string
  /** Within the object, bytes. */
  startsAt: number
  /** Within the segment, bytes. */
  segmentFrom: number
  length: number
  /** Hex, of a part of an upload in parts. */
  md5: string | null
  /** Of the whole segment. */
  segmentSize: number
  crc32: number | null
  /** Whether the segment lies beside its row; the object store has the others. */
  beside: boolean
}

/** A stretch as a reader opens it. */
export interface OpenedPart extends ManifestPart {
  /** The whole segment, where it lies beside its row. */
  bytes: Buffer | null
}

const part = `json_build_object('segmentId', p.segment_id, 'startsAt', p.starts_at, 'segmentFrom', p.segment_from,
  'length', p.length, 'md5', p.md5, 'segmentSize', s.size, 'crc32', s.crc32, 'beside', s.bytes is not null)`
const joined = 'object_parts p join segments s on s.id = p.segment_id'

const ofGeneration = statement<{ part: ManifestPart }>(
  'manifests.of',
  `select ${part} as part from ${joined} where p.generation = $1 order by p.position`,
)

/** Where the bytes of a generation lie, in order; empty when the object was replaced or removed meanwhile: find it again. */
export async function manifestOf(db: Db, generation: string): Promise<ManifestPart[]> {
  return (await ofGeneration(db, [generation])).map(row => row.part)
}

const opened = statement<ObjectRow & { parts: ManifestPart[]; bytes: Buffer | null }>(
  'objects.open',
  `select ${columnsOf('o')}, m.parts, m.bytes from objects o
     cross join lateral (
       select json_agg(${part} order by p.position) as parts, string_agg(s.bytes, '' order by p.position) as bytes
         from ${joined} where p.generation = o.generation) m
    where o.owner_id = $1 and o.bucket = $2 and o.key = $3 and ${isLive('o')}`,
)

/** An object that has not expired and its manifest, both of one moment. */
export async function openObject(
  db: Db,
  { ownerId, bucket, key }: ObjectName,
): Promise<{ object: ObjectRow; parts: OpenedPart[] } | undefined> {
  const [row] = await opened(db, [ownerId, bucket, key])
  if (!row) return undefined
  const { parts, bytes, ...object } = row
  let at = 0
  const bytesOf = ({ beside, segmentSize }: ManifestPart): Buffer | null => {
    if (!beside || !bytes) return null
    at += segmentSize
    return bytes.subarray(at - segmentSize, at)
  }
  return { object, parts: parts.map(part => ({ ...part, bytes: bytesOf(part) })) }
}
