import { ApiError } from '../policy/errors.ts'
import { newId } from '../policy/ids.ts'
import { kept } from '../policy/retention.ts'
import type { AppRow } from './apps.ts'
import { type Db, transaction } from './database.ts'
import * as operations from './operations.ts'
import { findGood, isMaking } from './snapshots.ts'

export interface RestoreWish {
  appId: string
  actor: string
  /** As the listing has them. */
  name: string
  version: string
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

/**
 * Writes a restore down: an operation, and a deployment whose files come from the snapshot. Throws APP_NOT_FOUND (also while it is
 * being deleted), RESTORE_IN_PROGRESS, SNAPSHOT_IN_PROGRESS and SNAPSHOT_NOT_FOUND. Resolves to the operation's id.
 */
export async function queueRestore(db: Db, wish: RestoreWish): Promise<{ id: string }> {
  return transaction(db, trx => queue(trx, wish))
}

async function queue(trx: Db, { appId, actor, name, version, accepting }: RestoreWish): Promise<{ id: string }> {
  const app: AppRow | undefined = await trx('apps').where({ id: appId }).forUpdate().first()
  if (!app || (await operations.deleting(trx, appId))) throw new ApiError('APP_NOT_FOUND')
  if (await operations.restoring(trx, appId)) throw new ApiError('RESTORE_IN_PROGRESS')
  if (await isMaking(trx, appId)) throw new ApiError('SNAPSHOT_IN_PROGRESS')
  const snapshot = await findGood(trx, version, name)
  if (snapshot?.target_id !== appId) throw new ApiError('SNAPSHOT_NOT_FOUND')
  const [{ release }] = await trx('apps')
    .where({ id: appId })
    .update({ next_release: trx.raw('next_release + 1') })
    .returning(trx.raw('next_release - 1 as release'))
  const wish = { targetId: appId, kind: 'restore', ownerId: app.owner_id, actor, accepting } as const
  const operation = await operations.enqueue(trx, wish)
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

/** The last restore of an application; undefined when there was none, or it ended over an hour ago. */
export async function lastRestore(db: Db, appId: string): Promise<operations.OperationRow | undefined> {
  const last: operations.OperationRow | undefined = await db('operations')
    .where({ target_type: 'app', target_id: appId, kind: 'restore' })
    .whereNot({ state: 'accepting' })
    .orderBy('seq', 'desc')
    .first()
  const ended = last?.finished_at?.getTime()
  return ended !== undefined && ended < Date.now() - kept.restoreSeconds * 1000 ? undefined : last
}
