import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { ApiError } from '../../policy/errors.ts'
import { newVersionId } from '../../policy/ids.ts'
import type { UserRow } from '../accounts/accounts.ts'
import type { AppRow } from '../apps/apps.ts'
import { type Db, sqlState, transaction } from '../database.ts'
import * as segments from '../objects/segments.ts'
import * as operations from '../operations/operations.ts'

export type SnapshotOrigin = 'automatic' | 'manual'

export interface SnapshotRow {
  /** The version on the wire. */
  id: string
  target_type: 'app' | 'database'
  target_id: string
  owner_id: string
  operation_id: string
  /** Resource id, runtime and origin: many versions have one name. */
  name: string
  runtime: string | null
  origin: SnapshotOrigin
  state: 'making' | 'good' | 'failed'
  segment_id: string | null
  /** Bytes of the archive; Postgres gives it as text. */
  size: string | null
  digest: string | null
  config: AppConfigFile | null
  variables_version: number | null
  created_at: Date
  finished_at: Date | null
}

export interface SnapshotWish {
  appId: string
  ownerId: string
  /** User id, or who else asked. */
  actor: string
  origin: SnapshotOrigin
  plans: Plans
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Writes a snapshot and its operation down. Throws APP_NOT_FOUND (also while it is being deleted), RESTORE_IN_PROGRESS,
 * SNAPSHOT_IN_PROGRESS, and DAILY_SNAPSHOTS_LIMIT_REACHED past what the owner's plan allows by hand within 24 h.
 */
export async function queueSnapshot(db: Db, wish: SnapshotWish): Promise<SnapshotRow> {
  try {
    return await transaction(db, trx => queue(trx, wish))
  } catch (error) {
    if (sqlState(error) === '23505') throw new ApiError('SNAPSHOT_IN_PROGRESS')
    throw error
  }
}

async function queue(trx: Db, { appId, ownerId, actor, origin, plans, accepting }: SnapshotWish): Promise<SnapshotRow> {
  // Two snapshots of one account at once could pass its plan together.
  const owner: UserRow | undefined = await trx('users').where({ id: ownerId }).forNoKeyUpdate().first()
  const app: AppRow | undefined = await trx('apps').where({ id: appId }).forUpdate().first()
  if (!owner || !app || (await operations.deleting(trx, appId))) throw new ApiError('APP_NOT_FOUND')
  if (await operations.restoring(trx, appId)) throw new ApiError('RESTORE_IN_PROGRESS')
  if (await isMaking(trx, appId)) throw new ApiError('SNAPSHOT_IN_PROGRESS')
  if (origin === 'manual') await checkDay(trx, owner, plans)
  const operation = { targetId: appId, kind: 'snapshot', ownerId, actor, accepting } as const
  const [row] = await trx('snapshots')
    .insert({
      id: newVersionId(),
      target_id: appId,
      owner_id: ownerId,
      operation_id: (await operations.enqueue(trx, operation)).id,
      name: `${appId}_${app.language}_${origin}`,
      runtime: app.language,
      origin,
    })
    .returning('*')
  return row
}

/** Whether a snapshot of this application waits or is being made. */
export async function isMaking(db: Db, appId: string): Promise<boolean> {
  return Boolean(await db('snapshots').where({ target_type: 'app', target_id: appId, state: 'making' }).first('id'))
}

/** A plan counts all that an account asks for, of whatever resource, as every figure of a plan is of the account. */
async function checkDay(trx: Db, owner: UserRow, plans: Plans): Promise<void> {
  const { snapshotsPerDay } = planOf(plans, owner, new Date()).plan
  const counted: { secondsLeft: number }[] = await trx('snapshots')
    .where({ owner_id: owner.id, origin: 'manual' })
    .whereNot('state', 'failed')
    .whereRaw(`created_at > now() - interval '24 hours'`)
    .orderBy('created_at', 'desc')
    .select(trx.raw(`extract(epoch from created_at + interval '24 hours' - now())::float8 as "secondsLeft"`))
  if (counted.length < snapshotsPerDay) return
  // The next one is allowed when the oldest of those that fill the plan is a day old.
  const waits = counted[snapshotsPerDay - 1]?.secondsLeft ?? 86_400
  throw new ApiError('DAILY_SNAPSHOTS_LIMIT_REACHED', undefined, Math.max(1, Math.ceil(waits)))
}

export async function findSnapshot(db: Db, id: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ id }).first()
}

export async function findByOperation(db: Db, operationId: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ operation_id: operationId }).first()
}

/** The good snapshots of one application, newest first. */
export async function listSnapshots(db: Db, appId: string): Promise<SnapshotRow[]> {
  return db('snapshots').where({ target_type: 'app', target_id: appId, state: 'good' }).orderBy('created_at', 'desc')
}

/** The good snapshots of all applications of an account, newest first. */
export async function listSnapshotsOfOwner(db: Db, ownerId: string): Promise<SnapshotRow[]> {
  return db('snapshots').where({ target_type: 'app', owner_id: ownerId, state: 'good' }).orderBy('created_at', 'desc')
}

/** The good snapshot of this version, if it has this name; names say whose it is. */
export async function findGood(db: Db, version: string, name: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ id: version, name, state: 'good' }).first()
}

/** Digest of the snapshots that a body was recorded with; undefined when there is none. */
export async function recordedDigest(db: Db, segmentId: string): Promise<string | undefined> {
  return (await db('snapshots').where({ segment_id: segmentId, state: 'good' }).first('digest'))?.digest
}

/** What belongs to the files that are about to be copied. */
export async function recordBelongings(
  db: Db,
  id: string,
  { config, variablesVersion }: { config: AppConfigFile; variablesVersion: number },
): Promise<void> {
  await db('snapshots')
    .where({ id, state: 'making' })
    .update({ config: JSON.stringify(config), variables_version: variablesVersion })
}

export interface StoredSnapshot {
  segmentId: string
  size: number
  sha256: string
  /** Of what was archived. */
  digest: string
}

/**
 * The stored archive is good. Earlier snapshots of the same application that hold the same files share its body from now on, and
 * theirs goes to the sweep: of equal bodies the one is kept that was just read back. False when the archive is gone from the
 * store. Done already is success.
 */
export async function markGood(trx: Db, operationId: string, stored: StoredSnapshot): Promise<boolean> {
  const row: SnapshotRow | undefined = await trx('snapshots').where({ operation_id: operationId }).forUpdate().first()
  if (row?.state === 'good') return true
  if (!row || !(await segments.attach(trx, stored.segmentId, stored))) return false
  const { target_type, target_id } = row
  const { digest, size, segmentId: segment_id } = stored
  const equal: SnapshotRow[] = await trx('snapshots')
    .where({ target_type, target_id, state: 'good', digest })
    .orderBy('id')
    .forUpdate()
  for (const { id, segment_id: before } of equal) {
    if (before) await segments.release(trx, before)
    await segments.share(trx, segment_id)
    await trx('snapshots').where({ id }).update({ segment_id, size })
  }
  await trx('snapshots')
    .where({ id: row.id })
    .update({ state: 'good', segment_id, size, digest, finished_at: trx.fn.now() })
  return true
}

/** It will never be good; what ended already stays as it is. */
export async function markFailed(db: Db, operationId: string): Promise<void> {
  await db('snapshots')
    .where({ operation_id: operationId, state: 'making' })
    .update({ state: 'failed', finished_at: db.fn.now() })
}

/** The application is gone: what is still being made of it will never be good. */
export async function endUnfinished(trx: Db, appId: string): Promise<void> {
  await trx('snapshots')
    .where({ target_type: 'app', target_id: appId, state: 'making' })
    .update({ state: 'failed', finished_at: trx.fn.now() })
}

/** Removes rows and gives their bodies back; to be called inside the transaction that decides so. */
export async function removeSnapshots(trx: Db, rows: Pick<SnapshotRow, 'id' | 'segment_id'>[]): Promise<void> {
  for (const { segment_id } of rows) if (segment_id) await segments.release(trx, segment_id)
  const ids = rows.map(row => row.id)
  await trx('snapshots').whereIn('id', ids).delete()
}
