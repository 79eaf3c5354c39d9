import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { S3Facts } from '../../policy/s3/s3-facts.ts'
import { type AuditEntry, recordAudit } from '../audit.ts'
import type { Db } from '../database.ts'
import { endSlotLease, type SlotLease } from '../slot-leases.ts'
import { statement } from '../statement.ts'
import { isObjectLive, lockNames, type ObjectRow, objectColumns } from './object-rows.ts'
import { holdSegments, type NewObjectPart, writeManifest } from './object-segments.ts'

export { openObject, openWithoutParts, readObjectManifest as manifestOf } from './manifests.ts'
export { removeExpiredNames as removeExpired, removeObject, removeObjects } from './object-removal.ts'
export { findObject, lockNames, type ObjectRow } from './object-rows.ts'

/** An object as it is written. */
export interface NewObject extends ObjectName {
  contentType: string
  /** Hex, without quotes. */
  etag: string
  sha256?: string | null
  cacheControl?: string | null
  contentDisposition?: string | null
  originalName?: string | null
  metadata?: Record<string, string>
  s3?: S3Facts | null
  expiresAt?: Date | null
}

export interface StoreOptions {
  /** Whether an existing object of the name may be replaced. */
  overwrite?: boolean
  /** Throws when the object that the name has, or its absence, does not allow the write; called while the name is locked. */
  precondition?(existing: ExistingObject | undefined): void
  /** What was reserved of the account's storage; without it the quota is not checked. */
  charge?: StorageCharge
  ending?: WriteEnding
}

/** What conditions of a write are evaluated against. */
type ExistingObject = Pick<ObjectRow, 'etag' | 'created_at'>

/** What ends in the commit of a write: the slot of the upload, if it has one, and the command, with its audit entry. */
export interface WriteEnding {
  lease?: SlotLease
  entry: AuditEntry
}

/** Bytes that a process has leased for one write; an object that would add more is refused. */
export interface StorageCharge {
  leaseId: string
  bytes: number
}

/** The lease of a write expired, or its bytes went to other leases, before the commit. Nothing is written; retry with a new lease. */
export class LeaseLost extends CodedError {
  constructor() {
    super('UPLOAD_FAILED')
  }
}

export interface StoredObject {
  object: ObjectRow
  /** Whether it replaced an object. */
  replaced: boolean
}

const columns = `owner_id, bucket, key, generation, birth, size, content_type, etag, sha256, cache_control, content_disposition,
  original_name, metadata, s3, expires_at`

/** The row of a new object. */
export const objectRow = (object: NewObject, size: number): Omit<ObjectRow, 'created_at'> => ({
  owner_id: object.ownerId,
  bucket: object.bucket,
  key: object.key,
  generation: newId(),
  birth: newId(),
  size,
  content_type: object.contentType,
  etag: object.etag,
  sha256: object.sha256 ?? null,
  cache_control: object.cacheControl ?? null,
  content_disposition: object.contentDisposition ?? null,
  original_name: object.originalName ?? null,
  metadata: object.metadata ?? {},
  s3: object.s3 ?? null,
  expires_at: object.expiresAt ?? null,
})

const upsert = statement<ObjectRow>(
  'objects.upsert',
  `insert into objects as o (${columns})
   select ${columns} from json_populate_record(null::objects, $1)
   on conflict (owner_id, bucket, key) do update set (generation, birth, size, content_type, etag, sha256, cache_control,
     content_disposition, original_name, metadata, s3, expires_at, created_at) = (excluded.generation,
     case when ${isObjectLive('o')} then o.birth else excluded.birth end, excluded.size, excluded.content_type, excluded.etag,
     excluded.sha256, excluded.cache_control, excluded.content_disposition, excluded.original_name, excluded.metadata,
     excluded.s3, excluded.expires_at, now())
   returning ${objectColumns('o')}`,
)

const before = statement<{ generation: string; size: number; live: boolean } & ExistingObject>(
  'objects.before',
  `select o.generation, o.etag, o.created_at, o.size::float8 as size, ${isObjectLive('o')} as live from objects o
    where o.owner_id = $1 and o.bucket = $2 and o.key = $3`,
)

/**
 * Writes an object made of stored segments, in a transaction that holds the name from then on. Each part takes its own reference to its
 * segment. Throws what `precondition` does, OBJECT_ALREADY_EXISTS, STORAGE_QUOTA_EXCEEDED, `LeaseLost`, and UPLOAD_FAILED when the sweep took a segment.
 */
export async function storeObject(
  trx: Db,
  object: NewObject,
  parts: readonly NewObjectPart[],
  { overwrite = false, precondition, charge, ending }: StoreOptions = {},
): Promise<StoredObject> {
  await lockNames(trx, [object])
  const [old] = await before(trx, [object.ownerId, object.bucket, object.key])
  if (old?.live && !overwrite) throw new CodedError('OBJECT_ALREADY_EXISTS')
  precondition?.(old?.live ? old : undefined)
  const size = parts.reduce((sum, part) => sum + part.length, 0)
  const bytes = size - (old?.size ?? 0)
  if (charge && charge.bytes < bytes) throw new CodedError('STORAGE_QUOTA_EXCEEDED')
  if (!(await holdSegments(trx, parts, old && [old.generation]))) throw new CodedError('UPLOAD_FAILED')
  const [stored] = await upsert(trx, [JSON.stringify(objectRow(object, size))])
  await writeManifest(trx, stored!.generation, parts)
  await settleUsage(trx, object.ownerId, { objects: old ? 0 : 1, bytes }, charge)
  if (ending?.lease) await endSlotLease(trx, ending.lease)
  if (ending) await recordAudit(trx, ending.entry)
  return { object: stored!, replaced: old?.live ?? false }
}

const addDelta = statement<unknown>(
  'usage.add',
  // Locks the lease until the commit: a process that deletes expired leases waits.
  `with held as materialized (
     select id from quota_leases where id = $4 and expires_at > clock_timestamp() for key share)
   insert into usage_deltas (owner_id, objects, bytes, lease_id, leased)
   select $1, $2::integer, $3::bigint, $4, $5::bigint where $5::bigint = 0 or exists (select from held) returning 1`,
)

/** Records the change of an account's usage, and the leased bytes that it settles. Throws `LeaseLost`. */
async function settleUsage(
  trx: Db,
  ownerId: string,
  { objects, bytes }: { objects: number; bytes: number },
  charge?: StorageCharge,
): Promise<void> {
  if (objects === 0 && bytes === 0 && !charge) return
  const added = await addDelta(trx, [ownerId, objects, bytes, charge?.leaseId ?? null, charge?.bytes ?? 0])
  if (added.length === 0) throw new LeaseLost()
}
