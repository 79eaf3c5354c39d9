import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { CodedError } from '../../policy/errors.ts'
import { newVersionId } from '../../policy/ids.ts'
import type { UserRow } from '../accounts/accounts.ts'
import type { AppRow } from '../apps/apps.ts'
import { type Db, sqlState, transaction } from '../database.ts'
import * as segments from '../objects/segments.ts'
import type { TargetType } from '../operations/operation-kinds.ts'
import * as operations from '../operations/operations.ts'

type SnapshotOrigin = 'automatic' | 'manual'

export interface SnapshotRow {
  /** The version on the wire. */
  id: string
  target_type: TargetType
  target_id: string
  owner_id: string
  operation_id: string
  /** Resource id, runtime and origin: all versions of a kind share one name. */
  name: string
  runtime: string | null
  /** Major version of a database's engine; null for applications. */
  engine_version: string | null
  origin: SnapshotOrigin
  state: 'making' | 'good' | 'failed'
  segment_id: string | null
  /** Bytes of the archive; Postgres gives it as text. */
  size: string | null
  digest: string | null
  /** Digest of what a database contains, when it was restored into another engine; null for applications. */
  contents: string | null
  /** Bytes of disk that its proof took, for a dump and a loaded copy; null for applications, and when it was not measured. */
  restored_bytes: string | null
  proved_at: Date | null
  config: AppConfigFile | null
  variables_version: number | null
  created_at: Date
  finished_at: Date | null
}

export interface NewSnapshot {
  appId: string
  ownerId: string
  /** User id, or the actor of an operation that no user requested. */
  actor: string
  origin: SnapshotOrigin
  plans: Plans
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Stores a snapshot and its operation. Throws APP_NOT_FOUND (also while it is being deleted), RESTORE_IN_PROGRESS,
 * SNAPSHOT_IN_PROGRESS, and DAILY_SNAPSHOTS_LIMIT_REACHED past the number of manual snapshots in 24 h that the owner's plan allows.
 */
export async function queueSnapshot(db: Db, request: NewSnapshot): Promise<SnapshotRow> {
  try {
    return await transaction(db, trx => queue(trx, request))
  } catch (error) {
    if (sqlState(error) === '23505') throw new CodedError('SNAPSHOT_IN_PROGRESS')
    throw error
  }
}

async function queue(trx: Db, { appId, ownerId, actor, origin, plans, accepting }: NewSnapshot): Promise<SnapshotRow> {
  // Locked, because concurrent snapshots of one account could together pass its plan.
  const owner: UserRow | undefined = await trx('users').where({ id: ownerId }).forNoKeyUpdate().first()
  const app: AppRow | undefined = await trx('apps').where({ id: appId }).forUpdate().first()
  if (!owner || !app || (await operations.isDeletionPending(trx, appId))) throw new CodedError('APP_NOT_FOUND')
  if (await operations.isRestorePending(trx, appId)) throw new CodedError('RESTORE_IN_PROGRESS')
  if (await isSnapshotPending(trx, appId)) throw new CodedError('SNAPSHOT_IN_PROGRESS')
  if (origin === 'manual') await checkDay(trx, owner, plans)
  const operation = { targetId: appId, kind: 'snapshot', ownerId, actor, accepting } as const
  const [row] = await trx('snapshots')
    .insert({
      id: newVersionId(),
      target_id: appId,
      owner_id: ownerId,
      operation_id: (await operations.enqueueOperation(trx, operation)).id,
      name: `${appId}_${app.language}_${origin}`,
      runtime: app.language,
      origin,
    })
    .returning('*')
  return row
}

/** Whether a snapshot of this application, or database, waits or is being created. */
export async function isSnapshotPending(db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> {
  return Boolean(await db('snapshots').where({ target_type: type, target_id: targetId, state: 'making' }).first('id'))
}

/**
 * Throws DAILY_SNAPSHOTS_LIMIT_REACHED past the manual snapshots of 24 h that the plan of the locked owner allows. The limit is of the
 * account: it counts the snapshots of all resources.
 */
export async function checkDay(trx: Db, owner: UserRow, plans: Plans): Promise<void> {
  const { snapshotsPerDay } = planOf(plans, owner, new Date()).plan
  const counted: { secondsLeft: number }[] = await trx('snapshots')
    .where({ owner_id: owner.id, origin: 'manual' })
    .whereNot('state', 'failed')
    .whereRaw(`created_at > now() - interval '24 hours'`)
    .orderBy('created_at', 'desc')
    .select(trx.raw(`extract(epoch from created_at + interval '24 hours' - now())::float8 as "secondsLeft"`))
  if (counted.length < snapshotsPerDay) return
  // The next one is allowed when the oldest of those that fill the plan is a day old.
  const waitSeconds = counted[snapshotsPerDay - 1]?.secondsLeft ?? 86_400
  throw new CodedError('DAILY_SNAPSHOTS_LIMIT_REACHED', undefined, Math.max(1, Math.ceil(waitSeconds)))
}

export async function findSnapshot(db: Db, id: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ id }).first()
}

export async function findSnapshotByOperation(db: Db, operationId: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ operation_id: operationId }).first()
}

/** The good snapshots of one application, or database, newest first. */
export async function listSnapshots(db: Db, targetId: string, type: TargetType = 'app'): Promise<SnapshotRow[]> {
  return db('snapshots').where({ target_type: type, target_id: targetId, state: 'good' }).orderBy('created_at', 'desc')
}

/** The good snapshots of all applications, or databases, of an account, newest first. */
export async function listSnapshotsOfOwner(db: Db, ownerId: string, type: TargetType = 'app'): Promise<SnapshotRow[]> {
  return db('snapshots').where({ target_type: type, owner_id: ownerId, state: 'good' }).orderBy('created_at', 'desc')
}

/** The good snapshot of this version and name; the name contains the id of its resource. */
export async function findGoodSnapshot(db: Db, version: string, name: string): Promise<SnapshotRow | undefined> {
  return db('snapshots').where({ id: version, name, state: 'good' }).first()
}

/** The digest that was recorded with a segment; undefined when no snapshot has it. */
export async function findSnapshotDigest(db: Db, segmentId: string): Promise<string | undefined> {
  return (await db('snapshots').where({ segment_id: segmentId, state: 'good' }).first('digest'))?.digest
}

/** Records the configuration and variables version that belong to the files about to be copied. */
export async function recordSnapshotContext(
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
  /** Of the archived files. */
  digest: string
}

/**
 * Marks a snapshot as good. Earlier snapshots of the application with the same files share its segment from now on, and theirs is left
 * to the sweep, once its downloads have ended: of equal segments the one stays that was just read back. False when the sweep took the
 * archive. May be repeated.
 */
export async function markSnapshotGood(trx: Db, operationId: string, stored: StoredSnapshot): Promise<boolean> {
  const row: SnapshotRow | undefined = await trx('snapshots').where({ operation_id: operationId }).forUpdate().first()
  if (row?.state === 'good') return true
  if (!row || !(await segments.attachSegment(trx, stored.segmentId, stored))) return false
  const { target_type, target_id } = row
  const { digest, size, segmentId: segment_id } = stored
  const equal: SnapshotRow[] = await trx('snapshots')
    .where({ target_type, target_id, state: 'good', digest })
    .orderBy('id')
    .forUpdate()
  for (const { id, segment_id: before } of equal) {
    if (before) await segments.releaseReadSegment(trx, before)
    await segments.shareSegment(trx, segment_id)
    await trx('snapshots').where({ id }).update({ segment_id, size })
  }
  await trx('snapshots')
    .where({ id: row.id })
    .update({ state: 'good', segment_id, size, digest, finished_at: trx.fn.now() })
  return true
}

/**
 * Records that a snapshot of a database was restored into another engine, the digest of what that has, and the bytes of disk that it took;
 * a step of an earlier version has not measured those.
 */
export async function recordSnapshotProof(
  trx: Db,
  operationId: string,
  { contents, restoredBytes = null }: { contents: string; restoredBytes?: number | null },
): Promise<void> {
  const proof = { contents, restored_bytes: restoredBytes, proved_at: trx.fn.now() }
  await trx('snapshots').where({ operation_id: operationId }).update(proof)
}

/** The good snapshot that a restore of a database brings back; undefined when it was deleted meanwhile. */
export async function findRestoredSnapshot(db: Db, operationId: string): Promise<SnapshotRow | undefined> {
  const operation = await db('operations').where({ id: operationId }).first('input')
  const id: string | undefined = operation?.input.snapshotId
  return id === undefined ? undefined : db('snapshots').where({ id, target_type: 'database', state: 'good' }).first()
}

/** Marks an unfinished snapshot as failed. */
export async function markSnapshotFailed(db: Db, operationId: string): Promise<void> {
  await db('snapshots')
    .where({ operation_id: operationId, state: 'making' })
    .update({ state: 'failed', finished_at: db.fn.now() })
}

/** Marks the unfinished snapshots of a deleted application, or database, as failed. */
export async function endUnfinishedSnapshots(trx: Db, targetId: string, type: TargetType = 'app'): Promise<void> {
  await trx('snapshots')
    .where({ target_type: type, target_id: targetId, state: 'making' })
    .update({ state: 'failed', finished_at: trx.fn.now() })
}

/** Deletes rows and drops their references to segments; call it in the transaction that decides it. */
export async function removeSnapshots(trx: Db, rows: Pick<SnapshotRow, 'id' | 'segment_id'>[]): Promise<void> {
  for (const { segment_id } of rows) if (segment_id) await segments.releaseSegment(trx, segment_id)
  const ids = rows.map(row => row.id)
  await trx('snapshots').whereIn('id', ids).delete()
}
