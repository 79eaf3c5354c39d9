import type { ByteRange } from '../../lib/byte-range.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import { batched } from '../batched.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { findObject, isObjectLive, type ObjectRow, objectColumns } from './object-rows.ts'

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

/**
 * Which parts are opened: those that have bytes of a range, or those of some numbers, from 1 on; by default all. Only they become JSON
 * and look up their segment, which takes 50 times as long as to pass over a part.
 */
export interface OpenedRange {
  bytes?: ByteRange
  numbers?: { from: number; to: number }
}

/** Names are passed as JSON, whose estimated row count is constant: Postgres keeps one plan, which looks up each name by index. */
const open = statement<ObjectRow & { n: number; parts: ManifestPart[] | null; bytes: Buffer | null }>(
  'objects.open',
  `select w.n, ${objectColumns('o')}, m.parts, m.bytes
     from json_to_recordset($1) as w (n integer, owner_id text, bucket text, key text, first_byte bigint, last_byte bigint,
       first_number integer, last_number integer)
     cross join lateral (
       select * from objects o where o.owner_id = w.owner_id and o.bucket = w.bucket and o.key = w.key and ${isObjectLive('o')} limit 1) o
     cross join lateral (
       select json_agg(${part} order by p.position) as parts, string_agg(s.bytes, '' order by p.position) as bytes
         from ${joined} where p.generation = o.generation and p.position between w.first_number and w.last_number
          and p.starts_at <= w.last_byte and p.starts_at + p.length > w.first_byte) m`,
)

/** Postgres has no larger integer. */
const maxNumber = 2 ** 31 - 1

/** An object and its parts, or those that were requested, of one moment. */
export interface OpenedObject {
  object: ObjectRow
  parts: OpenedPart[]
}

const openBatched = batched<ObjectName & OpenedRange, OpenedObject | undefined>(
  async (db, _, names) => {
    const objects = new Map<number, OpenedObject>()
    const requests = names.map(({ ownerId, bucket, key, bytes, numbers }, n) => ({
      ...{ n, owner_id: ownerId, bucket, key },
      // Parts of no bytes are a part of the whole only.
      ...{ first_byte: bytes?.from ?? -1, last_byte: bytes?.to ?? Number.MAX_SAFE_INTEGER },
      ...{ first_number: numbers?.from ?? 1, last_number: numbers?.to ?? maxNumber },
    }))
    for (const { n, parts, bytes, ...object } of await open(db, [JSON.stringify(requests)]))
      objects.set(n, { object, parts: withBytes(parts ?? [], bytes) })
    return names.map((_, n) => objects.get(n))
  },
  { maxSize: 32, maxConcurrent: 2, accountOf: ({ ownerId }) => ownerId },
)

/** An object that has not expired, with its manifest or some parts of that. */
export const openObject = (db: Db, name: ObjectName, range: OpenedRange = {}): Promise<OpenedObject | undefined> =>
  openBatched(db, 'open', { ...name, ...range })

/** The row of an object that has not expired, where none of its parts is needed. */
export async function openWithoutParts(db: Db, name: ObjectName): Promise<OpenedObject | undefined> {
  const object = await findObject(db, name)
  return object && { object, parts: [] }
}

function withBytes(parts: readonly ManifestPart[], bytes: Buffer | null): OpenedPart[] {
  let at = 0
  return parts.map(part => {
    if (!part.inline || !bytes) return { ...part, bytes: null }
    at += part.segmentSize
    return { ...part, bytes: bytes.subarray(at - part.segmentSize, at) }
  })
}
