import type { Plans } from '../../policy/accounts/plans.ts'
import { CodedError } from '../../policy/errors.ts'
import { newVersionId } from '../../policy/ids.ts'
import type { UserRow } from '../accounts/accounts.ts'
import { type Db, sqlState, transaction } from '../database.ts'
import * as operations from '../operations/operations.ts'
import { checkDay, findGoodSnapshot, isSnapshotPending, type SnapshotRow } from '../snapshots/snapshots.ts'
import type { DatabaseRow } from './database-rows.ts'

export interface NewDatabaseSnapshot {
  databaseId: string
  ownerId: string
  /** User id, or the actor of an operation that no user requested. */
  actor: string
  origin: 'automatic' | 'manual'
  plans: Plans
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Stores a snapshot of a database and its operation. Throws DATABASE_NOT_FOUND (also while it is being deleted), RESTORE_IN_PROGRESS,
 * SNAPSHOT_IN_PROGRESS, and DAILY_SNAPSHOTS_LIMIT_REACHED past the number of manual snapshots in 24 h that the owner's plan allows.
 */
export async function queueDatabaseSnapshot(db: Db, request: NewDatabaseSnapshot): Promise<SnapshotRow> {
  try {
    return await transaction(db, trx => queue(trx, request))
  } catch (error) {
    if (sqlState(error) === '23505') throw new CodedError('SNAPSHOT_IN_PROGRESS')
    throw error
  }
}

async function queue(trx: Db, request: NewDatabaseSnapshot): Promise<SnapshotRow> {
  const { databaseId, ownerId, actor, origin, plans, accepting } = request
  // Locked, because concurrent snapshots of one account could together pass its plan.
  const owner: UserRow | undefined = await trx('users').where({ id: ownerId }).forNoKeyUpdate().first()
  const database = await lockIdleDatabase(trx, databaseId)
  if (!owner) throw new CodedError('DATABASE_NOT_FOUND')
  if (origin === 'manual') await checkDay(trx, owner, plans)
  const target = { targetType: 'database', targetId: databaseId } as const
  const operation = await operations.enqueueOperation(trx, { ...target, kind: 'snapshot', ownerId, actor, accepting })
  const [row] = await trx('snapshots')
    .insert({
      id: newVersionId(),
      target_type: 'database',
      target_id: databaseId,
      owner_id: ownerId,
      operation_id: operation.id,
      name: `${databaseId}_${database.engine}_${origin}`,
      runtime: database.engine,
      engine_version: database.version,
      origin,
    })
    .returning('*')
  return row
}

export interface DatabaseRestoreRequest {
  databaseId: string
  actor: string
  /** As the listing has them. */
  name: string
  version: string
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Stores a restore of a database from a snapshot of its owner with the same engine. Throws DATABASE_NOT_FOUND (also while it is being
 * deleted), RESTORE_IN_PROGRESS, SNAPSHOT_IN_PROGRESS, SNAPSHOT_NOT_FOUND, and SNAPSHOT_DATABASE_MISMATCH for another engine or a newer one.
 */
export async function queueDatabaseRestore(db: Db, request: DatabaseRestoreRequest): Promise<{ id: string }> {
  const { databaseId, actor, name, version, accepting } = request
  return transaction(db, async trx => {
    const database = await lockIdleDatabase(trx, databaseId)
    const snapshot = await findGoodSnapshot(trx, version, name)
    if (snapshot?.target_type !== 'database' || snapshot.owner_id !== database.owner_id)
      throw new CodedError('SNAPSHOT_NOT_FOUND')
    if (snapshot.runtime !== database.engine || isNewer(snapshot.engine_version, database.version))
      throw new CodedError('SNAPSHOT_DATABASE_MISMATCH')
    return operations.enqueueOperation(trx, {
      ...({ targetType: 'database', targetId: databaseId, kind: 'restore' } as const),
      ...{ ownerId: database.owner_id, actor, accepting, input: { snapshotId: snapshot.id } },
    })
  })
}

/** Whether a snapshot is from a newer major version, whose format an older engine does not read. Null: not recorded. */
const isNewer = (version: string | null, of: string): boolean => version !== null && Number(version) > Number(of)

/** The locked row of a database that nothing else copies or replaces. Throws DATABASE_NOT_FOUND, RESTORE_IN_PROGRESS, SNAPSHOT_IN_PROGRESS. */
export async function lockIdleDatabase(trx: Db, id: string): Promise<DatabaseRow> {
  const database: DatabaseRow | undefined = await trx('databases').where({ id }).forUpdate().first()
  if (!database || (await operations.isDeletionPending(trx, id, 'database'))) throw new CodedError('DATABASE_NOT_FOUND')
  if (await operations.isRestorePending(trx, id, 'database')) throw new CodedError('RESTORE_IN_PROGRESS')
  if (await isSnapshotPending(trx, id, 'database')) throw new CodedError('SNAPSHOT_IN_PROGRESS')
  return database
}

/** Ids of databases with a good snapshot that is not older than this. */
export async function listRecentlySnapshotted(db: Db, hours: number): Promise<Set<string>> {
  const ids: string[] = await db('snapshots')
    .where({ target_type: 'database', state: 'good' })
    .whereRaw(`created_at > now() - ? * interval '1 hour'`, [hours])
    .distinct()
    .pluck('target_id')
  return new Set(ids)
}
