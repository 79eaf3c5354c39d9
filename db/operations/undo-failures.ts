import { storable } from '../../lib/storable-text.ts'
import type { Db } from '../database.ts'
import * as deployments from '../deploys/deployments.ts'
import { statement } from '../statement.ts'
import { recordStep, stuckGoingBack } from './operations.ts'

/** A change that an operation could not undo. */
export interface UndoFailure {
  operationId: string
  deploymentId: string | null
  /** What failed, and why, as text for the owner of the application. */
  words: string
}

/**
 * Marks the application of an operation as half changed, and writes it once into its deployment's log. The mark of an earlier operation
 * stays until a release was placed completely.
 */
export async function markUndoFailure(db: Db, { operationId, deploymentId, words }: UndoFailure): Promise<void> {
  const text = storable(words)
  const [marked] = await mark(db, [operationId, text])
  if (marked?.first && deploymentId) await deployments.appendLog(db, deploymentId, `${text}\n`)
}

/** `markUndoFailure` for an undo that is retried; also shown in the step of its operation. */
export async function markUndoRetried(db: Db, failure: UndoFailure): Promise<void> {
  await markUndoFailure(db, failure)
  await recordStep(db, failure.operationId, stuckGoingBack(failure.words))
}

const mark = statement<{ first: boolean }>(
  'undo-failures.mark',
  `with before as (
     select a.id, a.undo_failed_by from apps a join operations o on o.target_type = 'app' and o.target_id = a.id where o.id = $1 for update of a
   )
   update apps a
      set undo_failure = $2, undo_failed_by = $1,
          undo_failed_at = case when a.undo_failed_by = $1 then a.undo_failed_at else clock_timestamp() end
     from before where a.id = before.id and (before.undo_failed_by is null or before.undo_failed_by = $1)
   returning before.undo_failed_by is null as first`,
)

/** Clears the mark of an operation from its application: it was undone at last, or an operator has repaired it. False without a mark. */
export async function clearUndoFailure(db: Db, operationId: string): Promise<boolean> {
  return (await clear(db, [operationId])).length === 1
}

const clear = statement(
  'undo-failures.clear',
  `update apps a set undo_failure = null, undo_failed_at = null, undo_failed_by = null
     from operations o where o.id = $1 and o.target_type = 'app' and o.target_id = a.id and a.undo_failed_by = $1 returning 1`,
)

/** Whether a failing undo may be given up: its operation was cancelled after the failure was recorded, or its application or database is being deleted. */
export async function mayEndUndo(db: Db, operationId: string): Promise<boolean> {
  return (await ending(db, [operationId])).length === 1
}

const ending = statement(
  'undo-failures.ending',
  `select 1 from operations o left join apps a on o.target_type = 'app' and a.id = o.target_id
    where o.id = $1 and (
      exists (select 1 from operation_acts c
               where c.operation_id = o.id and c.act = 'cancel' and c.at > coalesce(a.undo_failed_at, 'infinity'))
      or exists (select 1 from operations d
               where d.target_type = o.target_type and d.target_id = o.target_id and d.kind = 'delete' and d.state in ('queued', 'running')))`,
)

/** Clears what was lost or half changed of an application: a completely placed release serves, or is ready to. */
export async function clearAppDamage(db: Db, appId: string): Promise<void> {
  const whole = { lost_with: null, undo_failure: null, undo_failed_at: null, undo_failed_by: null }
  await db('apps').where({ id: appId }).update(whole)
}
