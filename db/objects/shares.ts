import { CodedError } from '../../policy/errors.ts'
import { newShareId } from '../../policy/ids.ts'
import type { Bucket } from '../../policy/objects/object-names.ts'
import { accountCaps } from '../../policy/request-caps.ts'
import { retentionTimes } from '../../policy/retention.ts'
import { type Db, transaction } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { statement } from '../statement.ts'
import { isObjectLive, type ObjectRow } from './object-rows.ts'

/** A share of an object; it applies to the birth that was shared. */
export interface ShareRow {
  id: string
  owner_id: string
  bucket: Bucket
  key: string
  /** That of the object when it was shared. */
  birth: string
  /** Downloads; null = no cap. */
  max_downloads: number | null
  remaining: number | null
  password_hash: string | null
  created_at: Date
  expires_at: Date
}

export interface NewShare {
  /** What is shared. */
  object: ObjectRow
  expiresInSeconds: number
  maxDownloads: number | null
  passwordHash: string | null
}

const columns = [
  'id',
  'owner_id',
  'bucket',
  'key',
  'birth',
  'max_downloads',
  'remaining',
  'password_hash',
  'created_at',
  'expires_at',
]
  .map(column => `s.${column}`)
  .join(', ')

/** Neither expired nor revoked. */
const isOpen = 's.revoked_at is null and s.expires_at > now()'
/** And the shared object still exists under its name. */
const isAlive = `${isOpen} and exists (select from objects o where o.owner_id = s.owner_id and o.bucket = s.bucket
  and o.key = s.key and o.birth = s.birth and ${isObjectLive('o')})`

const lock = statement<unknown>('shares.lock', `select pg_advisory_xact_lock(hashtextextended('shares/' || $1, 0))`)

const insert = statement<ShareRow>(
  'shares.insert',
  `insert into shares as s (id, owner_id, bucket, key, birth, max_downloads, remaining, password_hash, expires_at)
   select $1, $2, $3, $4, $5, $6, $6, $7, now() + make_interval(secs => $8)
    where (select count(*) from shares s where s.owner_id = $2 and ${isAlive}) < ${accountCaps.shares}
   returning ${columns}`,
)

/** Shares an object, in a transaction. Throws TOO_MANY_SHARES. */
export async function createShare(trx: Db, { object, ...share }: NewShare): Promise<ShareRow> {
  await lock(trx, [object.owner_id])
  const { owner_id, bucket, key, birth } = object
  const { expiresInSeconds, maxDownloads, passwordHash } = share
  const values = [newShareId(), owner_id, bucket, key, birth, maxDownloads, passwordHash, expiresInSeconds]
  const [created] = await insert(trx, values)
  if (!created) throw new CodedError('TOO_MANY_SHARES')
  return created
}

const ofOwner = statement<ShareRow>(
  'shares.list',
  `select ${columns} from shares s where s.owner_id = $1 and ${isAlive} order by s.created_at desc, s.id`,
)

/** The working shares of an account, newest first; one whose downloads are spent is listed until it expires. */
export const listShares = (db: Db, ownerId: string): Promise<ShareRow[]> => ofOwner(db, [ownerId])

const byId = statement<ShareRow>('shares.find', `select ${columns} from shares s where s.id = $1 and ${isOpen}`)

/** A share that is neither expired nor revoked; its object may be missing. */
export const findShare = async (db: Db, id: string): Promise<ShareRow | undefined> => (await byId(db, [id]))[0]

const spend = statement<ShareRow>(
  'shares.spend',
  `update shares s set remaining = s.remaining - 1
    where s.id = $1 and (s.remaining is null or s.remaining > 0) and ${isOpen} returning ${columns}`,
)

/** Spends one download; false when none is left, or the share has ended. */
export const spendDownload = async (db: Db, id: string): Promise<boolean> => (await spend(db, [id])).length === 1

const ownById = statement<ShareRow>(
  'shares.find-own',
  `select ${columns} from shares s where s.owner_id = $1 and s.id = $2 and ${isAlive}`,
)

/** A working share of an account. */
export const findOwnShare = async (db: Db, ownerId: string, id: string): Promise<ShareRow | undefined> =>
  (await ownById(db, [ownerId, id]))[0]

const revoke = statement<ShareRow>(
  'shares.revoke',
  `update shares s set revoked_at = now() where s.id = $1 and ${isOpen} returning ${columns}`,
)

/** Ends a share, and calls `record` in its transaction; false when it has ended already. */
export const revokeShare = async (db: Db, id: string, record: (trx: Db) => Promise<void>): Promise<boolean> =>
  transaction(db, async trx => {
    const [revoked] = await revoke(trx, [id])
    if (revoked) await record(trx)
    return Boolean(revoked)
  })

/** Deletes shares a day after they ended. */
export function sweepShares(db: Db): Promise<number> {
  return deleteExpired(db, {
    table: 'shares',
    when: `least(old.expires_at, old.revoked_at) < now() - interval '${retentionTimes.endedDays} day'`,
  })
}
