import { storable } from '../../lib/storable-text.ts'
import type { Db } from '../database.ts'
import * as deployments from '../deploys/deployments.ts'
import { statement } from '../statement.ts'
import { recordStep, stuckGoingBack } from './operations.ts'

/** What an operation has changed and could not take back. */
export interface UndoFailure {
  operationId: string
  deploymentId: string | null
  /** What failed, and why; for the owner of the application. */
  words: string
}

/**
 * Marks the application of an operation as half changed, and says so once in its deployment's log. What an earlier operation has left
 * stays the mark until a release was brought whole.
 */
export async function markUndoFailure(db: Db, { operationId, deploymentId, words }: UndoFailure): Promise<void> {
  const text = storable(words)
  const [marked] = await mark(db, [operationId, text])
  if (marked?.first && deploymentId) await deployments.appendLog(db, deploymentId, `${text}\n`)
}

/** `markUndoFailure` of an undo that is tried again, and told in the step of its operation. */
export async function markUndoTriedAgain(db: Db, failure: UndoFailure): Promise<void> {
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

/** Takes the mark of an operation off its application: it was undone in the end, or an operator has looked after it. False without one. */
export async function clearUndoFailure(db: Db, operationId: string): Promise<boolean> {
  return (await clear(db, [operationId])).length === 1
}

const clear = statement(
  'undo-failures.clear',
  `update apps a set undo_failure = null, undo_failed_at = null, undo_failed_by = null
     from operations o where o.id = $1 and o.target_type = 'app' and o.target_id = a.id and a.undo_failed_by = $1 returning 1`,
)

/** Whether an undo that fails may be given up: somebody has asked to end its operation since it is known, or the application goes. */
export async function mayEndUndo(db: Db, operationId: string): Promise<boolean> {
  return (await ending(db, [operationId])).length === 1
}

const ending = statement(
  'undo-failures.ending',
  `select 1 from operations o left join apps a on a.id = o.target_id
    where o.id = $1 and (
      exists (select 1 from operation_acts c
               where c.operation_id = o.id and c.act = 'cancel' and c.at > coalesce(a.undo_failed_at, 'infinity'))
      or exists (select 1 from operations d
               where d.target_type = 'app' and d.target_id = o.target_id and d.kind = 'delete' and d.state in ('queued', 'running')))`,
)

/** A release that was brought whole serves, or stands ready: nothing of its application is missing or half changed any more. */
export async function recordWhole(db: Db, appId: string): Promise<void> {
  const whole = { lost_with: null, undo_failure: null, undo_failed_at: null, undo_failed_by: null }
  await db('apps').where({ id: appId }).update(whole)
}
