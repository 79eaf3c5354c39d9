import type { Knex } from 'knex'
import { announceApp } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { releaseUnusedMemory } from '../databases/databases.ts'
import {
  type DatabaseOperationKind,
  type OperationKind,
  type OperationTarget,
  switchingVersions,
  type TargetType,
} from './operation-kinds.ts'

/** The tables of what operations change; they share the columns of state. */
export const targetTables: Readonly<Record<TargetType, 'apps' | 'databases'>> = { app: 'apps', database: 'databases' }

/** Kinds that may restart a program or an engine. */
const restarting: readonly string[] = ['restart', 'resize', 'rotate', 'certify', 'undo', 'upgrade'] satisfies (
  | OperationKind
  | DatabaseOperationKind
)[]

/** Kinds that show a start. */
const starting: readonly string[] = ['create', 'start'] satisfies (OperationKind | DatabaseOperationKind)[]

/** An operation whose end may revert what its start has written to the row of its target. */
interface Ended {
  kind: string
  target_type: TargetType
  target_id: string
}

/** Serializes starts and ends of a target's deletions: each sees whether another is left. */
export async function lockForDeletion(trx: Db, { kind, target_type: type, target_id: id }: Ended): Promise<void> {
  if (kind === 'delete') await trx(targetTables[type]).where({ id }).forUpdate().first('id')
}

/** Sets the desired state to `deleted`, and stores the earlier one. The caller holds the target's row. */
export async function requestDeletion(trx: Db, { type, id }: OperationTarget): Promise<void> {
  await trx(targetTables[type])
    .where({ id })
    .whereNot('desired_state', 'deleted')
    .update({ desired_state: 'deleted', desired_if_kept: trx.ref('desired_state') })
}

/**
 * An operation has ended without success, or will never start: reverts the status that a start or a restart has set, the
 * memory that a change of size has reserved, and the desired state that a deletion has set, unless another deletion waits. Call it in the transaction of that end, after it.
 */
export async function revertTargetState(trx: Db, ended: Ended): Promise<void> {
  const { kind, target_type: type, target_id: id } = ended
  const table = targetTables[type]
  if (kind === 'start') await revertStart(trx, { type, id })
  if (restarting.includes(kind)) await revertRestart(trx, { type, id })
  if (type === 'database' && kind === 'resize') await releaseUnusedMemory(trx, id)
  if (kind !== 'delete') return
  await lockForDeletion(trx, ended)
  // A program that ran counts as running although its container may be missing: the host watch checks, and starts it again.
  const { rows } = await trx.raw(
    `update ?? set
        desired_state = coalesce(desired_if_kept, desired_state), desired_if_kept = null,
        status = case when status <> 'deleting' then status when started_at is not null then 'running'
                      when provisioned_at is null then 'created' else 'exited' end
      where id = ? and (desired_if_kept is not null or status = 'deleting')
        and not exists (select from operations
                         where target_type = ? and target_id = ? and kind = 'delete'
                           and state in ('accepting', 'queued', 'running'))
      returning id`,
    [table, id, type, id],
  )
  if (type === 'app' && rows.length > 0) await announceApp(trx, id)
}

/** Another operation that starts the program, and runs, is still shown. */
async function revertStart(trx: Db, { type, id }: OperationTarget): Promise<void> {
  const another = trx('operations').where({ target_type: type, target_id: id, state: 'running' })
  await trx(targetTables[type])
    .where({ id, status: 'starting' })
    .whereNotExists(another.whereIn('kind', starting))
    .update({ status: 'exited' })
}

/** What ran counts as running: the host watch finds what it is. Another restart that runs is still shown, and so is that of a restored database. */
async function revertRestart(trx: Db, { type, id }: OperationTarget): Promise<void> {
  const before = trx.raw(`case when started_at is null then 'exited' else 'running' end`)
  const another = trx('operations').where({ target_type: type, target_id: id, state: 'running' })
  await trx(targetTables[type])
    .where({ id, status: 'restarting' })
    .whereNotExists(another.where(shows => shows.whereIn('kind', restarting).orWhere(isSwitchingDatabase)))
    .update({ status: before })
}

/** A restore shows its restart only once it switches volumes. */
const isSwitchingDatabase = (restore: Knex.QueryBuilder) =>
  restore.where({ target_type: 'database', kind: 'restore' }).where('step', 'like', `${switchingVersions}%`)
