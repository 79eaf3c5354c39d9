import { newId } from '../../../policy/ids.ts'
import type { Bucket, ExtraBucket } from '../../../policy/objects/object-names.ts'
import type { StoredChecksum, UploadFacts } from '../../../policy/s3/s3-facts.ts'
import type { Db } from '../../database.ts'
import { statement } from '../../statement.ts'

/** An upload in parts, and the object that it will be. */
export interface UploadRow {
  id: string
  owner_id: string
  state: 'open' | 'completed' | 'aborted'
  /** The wire that opened it; the other one does not see it. */
  wire: 'blob' | 's3'
  bucket: Bucket | ExtraBucket
  key: string
  overwrite: boolean
  content_type: string
  cache_control: string | null
  content_disposition: string | null
  original_name: string | null
  metadata: Record<string, string>
  s3: UploadFacts | null
  expires_at: Date | null
  max_parts: number
  /** Of the whole object. */
  max_bytes: number
  /** The token that opened it, and may continue it. */
  upload_token_id: string | null
  /** Number of its parts, and their bytes; Postgres counts them (migration 080). */
  part_count: number
  part_bytes: number
  created_at: Date
  last_activity_at: Date
}

const columns = `u.id, u.owner_id, u.state, u.wire, u.bucket, u.key, u.overwrite, u.content_type, u.cache_control, u.content_disposition,
  u.original_name, u.metadata, u.s3, u.expires_at, u.max_parts, u.max_bytes::float8 as max_bytes, u.upload_token_id, u.part_count,
  u.part_bytes::float8 as part_bytes, u.created_at, u.last_activity_at`

export type NewUpload = Omit<
  UploadRow,
  'id' | 'state' | 'part_count' | 'part_bytes' | 'created_at' | 'last_activity_at'
>

/** What a completion answered. */
export interface UploadResult {
  etag: string
  checksum?: StoredChecksum
}

/** Serializes transactions that count the uploads of an account, until this one ends. A single upload must be locked before this. */
export async function lockUploads(trx: Db, ownerId: string): Promise<void> {
  await trx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [`uploads/${ownerId}`])
}

/** Opens an upload, unless the account has `maxOpen` of its wire. */
export async function openUpload(trx: Db, upload: NewUpload, maxOpen: number): Promise<string | undefined> {
  await lockUploads(trx, upload.owner_id)
  const [{ open }] = await trx('uploads')
    .where({ owner_id: upload.owner_id, state: 'open', wire: upload.wire })
    .select(trx.raw('count(*)::integer as open'))
  if (open >= maxOpen) return undefined
  const id = newId()
  const { metadata, s3 } = upload
  await trx('uploads').insert({ ...upload, id, metadata: JSON.stringify(metadata), s3: s3 && JSON.stringify(s3) })
  return id
}

const byId = statement<UploadRow>(
  'uploads.find',
  `select ${columns} from uploads u where u.id = $1 and u.owner_id = $2 and u.wire = $3 and u.state = 'open'`,
)

/** An open upload of an account. */
export async function findUpload(
  db: Db,
  id: string,
  ownerId: string,
  wire: UploadRow['wire'] = 'blob',
): Promise<UploadRow | undefined> {
  return (await byId(db, [id, ownerId, wire]))[0]
}

const locked = statement<UploadRow>(
  'uploads.lock',
  `select ${columns} from uploads u where u.id = $1 and u.state = 'open' for update`,
)

/** Locks an open upload until the transaction ends; every change of it takes this lock first, before names and segments. */
export async function lockOpenUpload(trx: Db, id: string): Promise<UploadRow | undefined> {
  return (await locked(trx, [id]))[0]
}

/** Open uploads of an account through the Blob API, oldest first. */
export async function listOpenUploads(db: Db, ownerId: string): Promise<UploadRow[]> {
  const { rows } = await db.raw(
    `select ${columns} from uploads u
      where u.owner_id = ? and u.state = 'open' and u.wire = 'blob' order by u.created_at, u.id`,
    [ownerId],
  )
  return rows
}

/** The parts of all open uploads of an account. */
export interface OpenParts {
  bytes: number
  parts: number
}

const openSum = statement<OpenParts>(
  'uploads.open-bytes',
  `select coalesce(sum(part_bytes), 0)::float8 as bytes, coalesce(sum(part_count), 0)::integer as parts
     from uploads where owner_id = $1 and state = 'open' and id is distinct from $2::text`,
)

/** Parts of the open uploads of an account, except one; its usage does not include them yet. */
export async function readOpenParts(db: Db, ownerId: string, except: string | null = null): Promise<OpenParts> {
  return (await openSum(db, [ownerId, except]))[0]!
}
