import type { Db } from '../database.ts'
import type { OperationKind } from '../operations/operation-kinds.ts'
import { announce } from './apps.ts'

/** An operation whose end may take back what its beginning has written to the application's row. */
interface Ended {
  kind: OperationKind
  target_id: string
}

/** Deletions of one application begin and end one after the other: each sees whether another is left. */
export async function lockForDeletion(trx: Db, { kind, target_id: id }: Ended): Promise<void> {
  if (kind === 'delete') await trx('apps').where({ id }).forUpdate().first('id')
}

/** The application is wanted deleted from here on; what was wanted before is kept beside. The caller holds its row. */
export async function wantDeleted(trx: Db, id: string): Promise<void> {
  await trx('apps')
    .where({ id })
    .whereNot('desired_state', 'deleted')
    .update({ desired_state: 'deleted', desired_if_kept: trx.ref('desired_state') })
}

/**
 * An operation has ended without success, or will never begin. What a start showed ends with it; of a deletion, unless another one
 * waits, also what was wanted. To be called in the transaction of that end, after it.
 */
export async function takeBack(trx: Db, { kind, target_id: id }: Ended): Promise<void> {
  if (kind === 'start') await trx('apps').where({ id, status: 'starting' }).update({ status: 'exited' })
  if (kind !== 'delete') return
  await lockForDeletion(trx, { kind, target_id: id })
  // What ran counts as running although its container may be gone: the host watch looks, and brings it back.
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
  if (rows.length > 0) await announce(trx, id)
}
