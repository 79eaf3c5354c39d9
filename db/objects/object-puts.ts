import { auditRow } from '../audit.ts'
import { batched } from '../batched.ts'
import { awaitServerProcessEnd } from '../commits-in-doubt.ts'
import type { UnansweredError } from '../connection.ts'
import { type Db, isUnavailable } from '../database.ts'
import { ownTransaction } from '../locked-slots.ts'
import { statement } from '../statement.ts'
import { isNameFree, type ObjectRow } from './object-rows.ts'
import type { NewObjectPart } from './object-segments.ts'
import {
  type NewObject,
  objectRow,
  type StorageCharge,
  type StoredObject,
  type StoreOptions,
  storeObject,
  type WriteEnding,
} from './objects.ts'
import type { BodyFacts } from './segments.ts'

/** A new object of one segment. */
interface Put {
  object: NewObject
  part: NewObjectPart & { body: BodyFacts }
  charge: StorageCharge | undefined
  ending: WriteEnding | undefined
}

type Placed = Pick<ObjectRow, 'generation' | 'created_at'>

const insertNew = statement<Placed>(
  'objects.insert',
  `with requested as materialized (
     select * from json_to_recordset($1) as a (owner_id text, bucket text, key text, generation text, birth text, size bigint,
       content_type text, etag text, sha256 text, cache_control text, content_disposition text, original_name text,
       metadata jsonb, s3 jsonb, expires_at timestamptz, segment_id text, body_sha256 text, md5 text, crc32 bigint, bytes_at integer,
       lease_id text, leased bigint, subject text, place integer, holder text, actor text, account_id text, action text,
       resource text, result text, operation_id text)),
   leased as materialized (
     select id from quota_leases
      where id in (select lease_id from requested) and expires_at > clock_timestamp() for key share),
   named as materialized (
     select a.* from requested a where ${isNameFree('a')} and (a.leased = 0 or a.lease_id in (select id from leased))),
   drawn as materialized (
     select id from segments
      where id in (select segment_id from named where bytes_at is null) and state in ('drawn', 'stored')
        for no key update skip locked),
   placed as (
     insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag, sha256, cache_control,
         content_disposition, original_name, metadata, s3, expires_at)
       select owner_id, bucket, key, generation, birth, size, content_type, etag, sha256, cache_control,
           content_disposition, original_name, metadata, s3, expires_at
         from named where bytes_at is not null or segment_id in (select id from drawn)
       on conflict (owner_id, bucket, key) do nothing returning generation, created_at),
   won as materialized (select a.* from placed join requested a using (generation)),
   held as (
     update segments s set state = 'stored', refs = s.refs + 1, zero_since = null, size = w.size, sha256 = w.body_sha256,
         md5 = w.md5, crc32 = w.crc32
       from won w where s.id = w.segment_id and w.bytes_at is null),
   inline as (
     insert into segments (id, state, refs, size, sha256, md5, crc32, bytes)
       select segment_id, 'stored', 1, size, body_sha256, md5, crc32, substring($2::bytea from bytes_at for size::integer)
         from won where bytes_at is not null),
   manifest as (
     insert into object_parts (generation, position, segment_id, starts_at, length, md5)
       select generation, 1, segment_id, 0, size, md5 from won),
   delta as (
     insert into usage_deltas (owner_id, objects, bytes, lease_id, leased)
       select owner_id, count(*), sum(size), lease_id, sum(leased) from won group by owner_id, lease_id),
   ended as (
     delete from blob_leases l using won w where l.subject = w.subject and l.place = w.place and l.holder = w.holder),
   recorded as (
     insert into audit (account_id, actor, action, resource, result, operation_id)
       select account_id, actor, action, resource, result, operation_id from won where actor is not null)
   select generation, created_at from placed`,
)

/** Writes the objects whose names are new and not locked, and whose leases are valid; undefined for the others, of which nothing is written. */
const insertBatched = batched<Put, ObjectRow | undefined>(
  async (db, _, puts) => {
    const inlineBytes: Buffer[] = []
    const rows: Omit<ObjectRow, 'created_at'>[] = []
    let end = 1 // Postgres counts bytes from 1
    const requests = puts.map(({ object, part: { segmentId, body, bytes }, charge, ending }) => {
      const bytesAt = bytes ? end : null
      if (bytes) inlineBytes.push(bytes)
      end += bytes?.length ?? 0
      const row = objectRow(object, body.size)
      rows.push(row)
      return {
        ...row,
        segment_id: segmentId,
        body_sha256: body.sha256,
        md5: body.md5,
        crc32: body.crc32,
        bytes_at: bytesAt,
        lease_id: charge?.leaseId,
        leased: charge?.bytes ?? 0,
        ...ending?.lease,
        ...(ending && auditRow(ending.entry)),
      }
    })
    const placed = await insertNew(db, [JSON.stringify(requests), Buffer.concat(inlineBytes)]).catch(error =>
      storedAfter(db, error, rows),
    )
    const times = new Map(placed.map(({ generation, created_at }) => [generation, created_at]))
    return rows.map(row => {
      const created_at = times.get(row.generation)
      return created_at && { ...row, created_at }
    })
  },
  { maxSize: 8, maxConcurrent: 1 },
)

/** Those of `rows` that were stored by a statement whose answer was lost; the others were not, and never will be. */
async function storedAfter(db: Db, error: unknown, rows: readonly { generation: string }[]): Promise<Placed[]> {
  const { servedBy } = error as UnansweredError
  if (!isUnavailable(error) || !servedBy) throw error
  await awaitServerProcessEnd(db, servedBy, error)
  const generations = rows.map(({ generation }) => generation)
  return db('objects').whereIn('generation', generations).select('generation', 'created_at')
}

/**
 * Creates an object from one segment. A new name, the usual case, takes one statement and one commit, shared with concurrent writes of
 * the account. Throws OBJECT_ALREADY_EXISTS, STORAGE_QUOTA_EXCEEDED, `LeaseLost`, and UPLOAD_FAILED when the sweep took the segment.
 */
export async function putObject(
  db: Db,
  object: NewObject,
  part: NewObjectPart & { body: BodyFacts },
  options: StoreOptions = {},
): Promise<StoredObject> {
  const { precondition, charge, ending } = options
  if (!precondition && (!charge || charge.bytes >= part.body.size)) {
    const placed = await insertBatched(db, object.ownerId, { object, part, charge, ending })
    if (placed) return { object: placed, replaced: false }
  }
  return ownTransaction(db, object.ownerId, trx => storeObject(trx, object, [part], options))
}
