import type { ObjectName } from '../../policy/objects/object-names.ts'
import { batched } from '../batched.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { isObjectLive, type ObjectRow, objectColumns } from './object-rows.ts'

/** A part of an object, and where its bytes are stored. */
export interface ManifestPart {
  segmentId: string
  /** Offset in the object, bytes. */
  startsAt: number
  /** Offset in the segment, bytes. */
  segmentFrom: number
  length: number
  /** Hex; null unless the object was uploaded in parts. */
  md5: string | null
  /** Base64, of the algorithm of the object's checksum; null unless its part was sent with one. */
  checksum: string | null
  /** Of the whole segment. */
  segmentSize: number
  crc32: number | null
  /** Whether the segment is stored in its row; the object store has the others. */
  inline: boolean
}

/** A part as a reader opens it. */
export interface OpenedPart extends ManifestPart {
  /** The whole segment, when it is stored in its row. */
  bytes: Buffer | null
}

const part = `json_build_object('segmentId', p.segment_id, 'startsAt', p.starts_at, 'segmentFrom', p.segment_from,
  'length', p.length, 'md5', p.md5, 'checksum', p.checksum, 'segmentSize', s.size, 'crc32', s.crc32, 'inline', s.bytes is not null)`
const joined = 'object_parts p join segments s on s.id = p.segment_id'

const ofGeneration = statement<{ part: ManifestPart }>(
  'manifests.of',
  `select ${part} as part from ${joined} where p.generation = $1 order by p.position`,
)

/** The parts of a generation, in order; empty when the object was replaced or deleted meanwhile: find it again. */
export async function readObjectManifest(db: Db, generation: string): Promise<ManifestPart[]> {
  return (await ofGeneration(db, [generation])).map(row => row.part)
}

/** Names are passed as JSON, whose estimated row count is constant: Postgres keeps one plan, which looks up each name by index. */
const open = statement<ObjectRow & { n: number; parts: ManifestPart[]; bytes: Buffer | null }>(
  'objects.open',
  `select w.n, ${objectColumns('o')}, m.parts, m.bytes
     from json_to_recordset($1) as w (n integer, owner_id text, bucket text, key text)
     cross join lateral (
       select * from objects o where o.owner_id = w.owner_id and o.bucket = w.bucket and o.key = w.key and ${isObjectLive('o')} limit 1) o
     cross join lateral (
       select json_agg(${part} order by p.position) as parts, string_agg(s.bytes, '' order by p.position) as bytes
         from ${joined} where p.generation = o.generation) m`,
)

/** An object and its parts, of one moment. */
export interface OpenedObject {
  object: ObjectRow
  parts: OpenedPart[]
}

const openBatched = batched<ObjectName, OpenedObject | undefined>(
  async (db, _, names) => {
    const objects = new Map<number, OpenedObject>()
    const wanted = names.map(({ ownerId, bucket, key }, n) => ({ n, owner_id: ownerId, bucket, key }))
    for (const { n, parts, bytes, ...object } of await open(db, [JSON.stringify(wanted)]))
      objects.set(n, { object, parts: withBytes(parts, bytes) })
    return names.map((_, n) => objects.get(n))
  },
  { maxSize: 32, maxConcurrent: 2, accountOf: ({ ownerId }) => ownerId },
)

/** An object that has not expired, with its manifest. */
export const openObject = (db: Db, name: ObjectName): Promise<OpenedObject | undefined> => openBatched(db, 'open', name)

function withBytes(parts: readonly ManifestPart[], bytes: Buffer | null): OpenedPart[] {
  let at = 0
  return parts.map(part => {
    if (!part.inline || !bytes) return { ...part, bytes: null }
    at += part.segmentSize
    return { ...part, bytes: bytes.subarray(at - part.segmentSize, at) }
  })
}
