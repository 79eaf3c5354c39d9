import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import type { ObjectName } from '../../policy/objects/object-names.ts'
import type { S3Facts } from '../../policy/s3/s3-facts.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { readObjectManifest } from './manifests.ts'
import { clearName } from './object-removal.ts'
import { findObject, isObjectLive, lockNames, type ObjectRow, objectColumns } from './object-rows.ts'
import { type StoredObject, type StoreOptions, storeObject } from './objects.ts'

/** Changes of an object other than its name; fields left out stay. */
export interface ObjectChanges {
  contentType?: string
  cacheControl?: string | null
  contentDisposition?: string | null
  metadata?: Record<string, string>
  s3?: S3Facts | null
  expiresAt?: Date | null
}

const change = statement<ObjectRow>(
  'objects.change',
  `update objects o set bucket = $4, key = $5, birth = coalesce($6, o.birth), created_at = now(), content_type = coalesce($7, o.content_type),
          cache_control = case when $8 then $9 else o.cache_control end,
          content_disposition = case when $10 then $11 else o.content_disposition end,
          metadata = coalesce($12::jsonb, o.metadata),
          expires_at = case when $13 then $14::timestamptz else o.expires_at end,
          s3 = case when $15 then $16::jsonb else o.s3 end
    where o.owner_id = $1 and o.bucket = $2 and o.key = $3 and ${isObjectLive('o')} returning ${objectColumns('o')}`,
)

/** Two parameters of the statement: whether the column changes, and its value. */
const optional = <T>(value: T | undefined): [boolean, T | null] => [value !== undefined, value ?? null]

async function update(
  trx: Db,
  from: ObjectName,
  to: ObjectName,
  birth: string | null,
  { contentType, cacheControl, contentDisposition, metadata, s3, expiresAt }: ObjectChanges,
): Promise<ObjectRow | undefined> {
  const [row] = await change(trx, [
    ...[from.ownerId, from.bucket, from.key, to.bucket, to.key, birth, contentType ?? null],
    ...optional(cacheControl),
    ...optional(contentDisposition),
    metadata === undefined ? null : JSON.stringify(metadata),
    ...optional(expiresAt),
    ...optional(s3 && JSON.stringify(s3)),
  ])
  return row
}

/**
 * Changes an object in place: id and content stay, `created_at` is new. With another end it has a new birth: links to it stop working
 * as if the end were a part of its name, which S3 chooses without it. Undefined when there is no such object.
 */
export async function changeObject(trx: Db, name: ObjectName, changes: ObjectChanges): Promise<ObjectRow | undefined> {
  await lockNames(trx, [name])
  return update(trx, name, name, changes.expiresAt === undefined ? null : newId(), changes)
}

/** Sets the time at which an object was created, as an import does. */
export async function backdateObject(trx: Db, { ownerId, bucket, key }: ObjectName, createdAt: Date): Promise<void> {
  await trx('objects').where({ owner_id: ownerId, bucket, key }).update({ created_at: createdAt })
}

/**
 * Gives an object another name of its account, and with it a new birth: links to the old id stop working. No bytes move, and usage stays.
 * Changes of visibility and expiry are moves too. Undefined when there is no such object; throws SAME_OBJECT and OBJECT_ALREADY_EXISTS.
 */
export async function moveObject(
  trx: Db,
  from: ObjectName,
  to: ObjectName,
  { overwrite = false, changes = {} }: { overwrite?: boolean; changes?: ObjectChanges } = {},
): Promise<StoredObject | undefined> {
  if (from.bucket === to.bucket && from.key === to.key) throw new CodedError('SAME_OBJECT')
  await lockNames(trx, [from, to])
  if (!(await findObject(trx, from))) return undefined
  const replaced = await clearName(trx, to, overwrite)
  const object = await update(trx, from, to, newId(), changes)
  return object && { object, replaced }
}

export interface CopyOptions extends StoreOptions {
  /** Or a function of the source, called while its name is locked; it throws when the source must not be copied. */
  changes?: ObjectChanges | ((source: ObjectRow) => ObjectChanges)
}

/**
 * Creates a second object with the same segments; it counts towards usage. Undefined when there is no such object; throws as
 * `changes` and `storeObject` do.
 */
export async function copyObject(
  trx: Db,
  from: ObjectName,
  to: ObjectName,
  { changes = {}, ...options }: CopyOptions = {},
): Promise<StoredObject | undefined> {
  await lockNames(trx, [from, to])
  const source = await findObject(trx, from)
  if (!source) return undefined
  const changed = typeof changes === 'function' ? changes(source) : changes
  const object = {
    ...to,
    contentType: source.content_type,
    etag: source.etag,
    sha256: source.sha256,
    cacheControl: source.cache_control,
    contentDisposition: source.content_disposition,
    originalName: source.original_name,
    metadata: source.metadata,
    s3: source.s3,
    expiresAt: source.expires_at,
  }
  const changedFields = Object.entries(changed).filter(([, value]) => value !== undefined)
  return storeObject(
    trx,
    { ...object, ...Object.fromEntries(changedFields) },
    await readObjectManifest(trx, source.generation),
    options,
  )
}

/** Replaces the tags of an object, and nothing else: its content and the time of its last change stay. False when there is no such object. */
export async function setTags(trx: Db, name: ObjectName, tags: Record<string, string>): Promise<boolean> {
  await lockNames(trx, [name])
  const changed = await trx('objects as o')
    .where({ owner_id: name.ownerId, bucket: name.bucket, key: name.key })
    .whereRaw(isObjectLive('o'))
    .update({ s3: trx.raw(`coalesce(s3, '{}') || jsonb_build_object('tags', ?::jsonb)`, [JSON.stringify(tags)]) })
  return changed === 1
}
