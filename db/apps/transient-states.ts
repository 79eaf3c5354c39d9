import type { Db } from '../database.ts'
import type { OperationKind } from '../operations/operation-kinds.ts'
import { announceApp } from './apps.ts'

/** An operation whose end may revert what its start has written to the application's row. */
interface Ended {
  kind: OperationKind
  target_id: string
}

/** Serializes starts and ends of an application's deletions: each sees whether another is left. */
export async function lockForDeletion(trx: Db, { kind, target_id: id }: Ended): Promise<void> {
  if (kind === 'delete') await trx('apps').where({ id }).forUpdate().first('id')
}

/** Sets the desired state to `deleted`, and stores the earlier one. The caller holds the application's row. */
export async function requestDeletion(trx: Db, id: string): Promise<void> {
  await trx('apps')
    .where({ id })
    .whereNot('desired_state', 'deleted')
    .update({ desired_state: 'deleted', desired_if_kept: trx.ref('desired_state') })
}

/**
 * An operation has ended without success, or will never start: reverts the status that a start has set, and the desired state that a
 * deletion has set, unless another deletion waits. Call it in the transaction of that end, after it.
 */
export async function revertAppState(trx: Db, { kind, target_id: id }: Ended): Promise<void> {
  if (kind === 'start') await trx('apps').where({ id, status: 'starting' }).update({ status: 'exited' })
  if (kind !== 'delete') return
  await lockForDeletion(trx, { kind, target_id: id })
  // A program that ran counts as running although its container may be missing: the host watch checks, and starts it again.
  const { rows } = await trx.raw(
    `update apps set
        desired_state = coalesce(desired_if_kept, desired_state), desired_if_kept = null,
        status = case when status <> 'deleting' then status when started_at is not null then 'running'
                      when provisioned_at is null then 'created' else 'exited' end
      where id = :id and (desired_if_kept is not null or status = 'deleting')
        and not exists (select from operations
                         where target_type = 'app' and target_id = :id and kind = 'delete'
                           and state in ('accepting', 'queued', 'running'))
      returning id`,
    { id },
  )
  if (rows.length > 0) await announceApp(trx, id)
}
