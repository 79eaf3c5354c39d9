import type { Plans } from '../../policy/accounts/plans.ts'
import { CodedError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { retentionTimes } from '../../policy/retention.ts'
import { chooseHost, reserveMemory } from '../apps/app-creation.ts'
import type { AppRow } from '../apps/apps.ts'
import { type Db, transaction } from '../database.ts'
import { findLoss } from '../hosts/host-forgetting.ts'
import type { TargetType } from '../operations/operation-kinds.ts'
import * as operations from '../operations/operations.ts'
import { findGoodSnapshot, isSnapshotPending } from './snapshots.ts'

export interface RestoreRequest {
  appId: string
  actor: string
  /** As the listing has them. */
  name: string
  version: string
  /** How an application finds a place whose host was forgotten; without it that is refused. */
  place?: { plans: Plans; diskMbPer256Mb: number }
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Stores a restore: an operation, and a deployment whose files come from the snapshot. An application whose host was forgotten is moved
 * to another one. Throws APP_NOT_FOUND (also while it is being deleted), RESTORE_IN_PROGRESS, SNAPSHOT_IN_PROGRESS and
 * SNAPSHOT_NOT_FOUND; with a new host also INSUFFICIENT_MEMORY, CLUSTER_SELECTION_FAILED, CLUSTER_MAINTENANCE_TRY_LATER, and CLUSTER_UNAVAILABLE
 * until all operations on the lost host have ended. Resolves to the operation's id.
 */
export async function queueRestore(db: Db, request: RestoreRequest): Promise<{ id: string }> {
  return transaction(db, trx => queue(trx, request))
}

async function queue(trx: Db, request: RestoreRequest): Promise<{ id: string }> {
  const { appId, actor, name, version, accepting } = request
  const lost = (await findLoss(trx, { type: 'app', id: appId }))?.nowhere
  // Locked before the application, as in a creation: all transactions take these locks in one order.
  if (lost)
    await trx('users')
      .whereIn('id', trx('apps').where({ id: appId }).select('owner_id'))
      .forUpdate()
      .first('id')
  const app: AppRow | undefined = await trx('apps').where({ id: appId }).forUpdate().first()
  if (!app || (await operations.isDeletionPending(trx, appId))) throw new CodedError('APP_NOT_FOUND')
  if (await operations.isRestorePending(trx, appId)) throw new CodedError('RESTORE_IN_PROGRESS')
  if (await isSnapshotPending(trx, appId)) throw new CodedError('SNAPSHOT_IN_PROGRESS')
  const snapshot = await findGoodSnapshot(trx, version, name)
  if (snapshot?.target_id !== appId) throw new CodedError('SNAPSHOT_NOT_FOUND')
  if (lost) await moveToNewHost(trx, app, request)
  const [{ release }] = await trx('apps')
    .where({ id: appId })
    .update({ next_release: trx.raw('next_release + 1') })
    .returning(trx.raw('next_release - 1 as release'))
  const newOperation = { targetId: appId, kind: 'restore', ownerId: app.owner_id, actor, accepting } as const
  const operation = await operations.enqueueOperation(trx, newOperation)
  const id = newId()
  await trx('deployments').insert({
    id,
    operation_id: operation.id,
    app_id: appId,
    owner_id: app.owner_id,
    release,
    trigger: 'restore',
    source: 'snapshot',
    revision: snapshot.digest?.slice(0, 40) ?? '',
    snapshot_id: snapshot.id,
    path: '',
    config: JSON.stringify(snapshot.config),
  })
  await trx('deployment_events').insert({ deployment_id: id, state: 'pending' })
  return operation
}

/** Moves the application to another host and reserves its memory in the plan; it counts as lost until a restore has succeeded. */
async function moveToNewHost(trx: Db, app: AppRow, { place }: RestoreRequest): Promise<void> {
  if (app.lost_with !== app.host_id || !place) throw new CodedError('CLUSTER_UNAVAILABLE')
  const { plans, diskMbPer256Mb } = place
  await reserveMemory(trx, { ownerId: app.owner_id, memoryMb: app.ram_mb, plans })
  const host_id = await chooseHost(
    trx,
    { ownerId: app.owner_id, language: app.language, memoryMb: app.ram_mb },
    diskMbPer256Mb,
  )
  // Its volume there is made for the memory of now.
  await trx('apps').where({ id: app.id }).update({ host_id, disk_for_mb: app.ram_mb })
}

/** Reverts the new host of a restore that was never confirmed, unless an earlier restore may have left files there. */
export async function revertRestoreHost(trx: Db, appId: string, restoreId: string): Promise<void> {
  await trx.raw(
    `update apps a set host_id = a.lost_with from hosts h
      where a.id = :appId and h.id = a.lost_with and not exists (
        select from operations o where o.target_type = 'app' and o.target_id = a.id and o.kind = 'restore'
           and o.id <> :restoreId and o.created_at > h.forgotten_at)`,
    { appId, restoreId },
  )
}

/** The last restore of an application, or database; undefined when there was none, or it ended over an hour ago. */
export async function findLastRestore(
  db: Db,
  targetId: string,
  type: TargetType = 'app',
): Promise<operations.OperationRow | undefined> {
  const last: operations.OperationRow | undefined = await db('operations')
    .where({ target_type: type, target_id: targetId, kind: 'restore' })
    .whereNot({ state: 'accepting' })
    .orderBy('seq', 'desc')
    .first()
  const ended = last?.finished_at?.getTime()
  return ended !== undefined && ended < Date.now() - retentionTimes.restoreSeconds * 1000 ? undefined : last
}
