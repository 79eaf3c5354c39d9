import type { Bucket, ExtraBucket, ObjectName } from '../../policy/objects/object-names.ts'
import type { S3Facts } from '../../policy/s3/s3-facts.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'

/** An object; the manifest of its generation lists its bytes. */
export interface ObjectRow {
  owner_id: string
  bucket: Bucket | ExtraBucket
  key: string
  /** New with every change of content. */
  generation: string
  /** New when the name is created, and with another end; unchanged by an overwrite; links refer to it. */
  birth: string
  size: number
  content_type: string
  etag: string
  /** Hex; null when it was uploaded in parts. */
  sha256: string | null
  cache_control: string | null
  content_disposition: string | null
  original_name: string | null
  metadata: Record<string, string>
  /** Null when the Blob API wrote it. */
  s3: S3Facts | null
  expires_at: Date | null
  created_at: Date
}

/** Every column of `ObjectRow`, of a table or a step of a statement. */
export const objectColumns = (table: string): string =>
  [
    'owner_id bucket key generation birth content_type etag sha256 cache_control content_disposition'.split(' '),
    'original_name metadata s3 expires_at created_at'.split(' '),
  ]
    .flat()
    .map(column => `${table}.${column}`)
    .concat(`${table}.size::float8 as size`) // bigint would arrive as text
    .join(', ')

/** True for a row that readers may see; expired rows wait for their deletion. */
export const isObjectLive = (table: string): string => `coalesce(${table}.expires_at > now(), true)`

/** The lock of a name, as a number: a name that does not exist yet has no row to lock. */
const lockOf = (name: string): string =>
  `hashtextextended(${name}.owner_id || '/' || ${name}.bucket || '/' || ${name}.key, 0)`

/** True for a name that no other transaction holds; this transaction holds it from then on. */
export const isNameFree = (name: string): string => `pg_try_advisory_xact_lock(${lockOf(name)})`

const locks = statement<unknown>(
  'objects.lock',
  `select pg_advisory_xact_lock(name.lock) from (
     select distinct ${lockOf('n')} as lock
       from unnest($1::text[], $2::text[], $3::text[]) as n (owner_id, bucket, key) order by lock) as name`,
)

/**
 * Locks names until the transaction ends, in one order. Every change of a name takes this lock before it reads the object. An upload's
 * row is locked before, segments after.
 */
export async function lockNames(trx: Db, names: readonly ObjectName[]): Promise<void> {
  await locks(trx, namesAsArrays(names))
}

/** Names as three parameters of a statement. */
export const namesAsArrays = (names: readonly ObjectName[]): string[][] => [
  names.map(name => name.ownerId),
  names.map(name => name.bucket),
  names.map(name => name.key),
]

const byName = statement<ObjectRow>(
  'objects.find',
  `select ${objectColumns('o')} from objects o where o.owner_id = $1 and o.bucket = $2 and o.key = $3 and ${isObjectLive('o')}`,
)

/** An object that has not expired. */
export async function findObject(db: Db, { ownerId, bucket, key }: ObjectName): Promise<ObjectRow | undefined> {
  return (await byName(db, [ownerId, bucket, key]))[0]
}

/** The name of a row. */
export const objectNameOf = ({ owner_id, bucket, key }: ObjectRow): ObjectName => ({ ownerId: owner_id, bucket, key })
