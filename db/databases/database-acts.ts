import type { Db } from '../database.ts'
import * as operations from '../operations/operations.ts'
import { ActRefused } from '../operations/operator-acts.ts'
import type { DatabaseRow } from './database-rows.ts'

export interface DatabaseAct {
  databaseId: string
  /** `operator:<login name>`, or the actor of an automatic act. */
  actor: string
}

/** Throws `ActRefused` unless a database was created, is there, and nothing replaces or removes it. Resolves to its locked row. */
export async function lockForAct(trx: Db, id: string): Promise<DatabaseRow> {
  const database: DatabaseRow | undefined = await trx('databases').where({ id }).forUpdate().first()
  if (!database || database.desired_state === 'deleted')
    throw new ActRefused('The database was deleted, or is being deleted.')
  if (database.provisioned_at === null) throw new ActRefused('The database is still being created.')
  if (database.lost_with !== null) throw new ActRefused(`Its data was lost with host ${database.lost_with}.`)
  if (await operations.isRestorePending(trx, id, 'database'))
    throw new ActRefused(
      `A restore is queued or running. Try again when it has finished: berth ops list --database ${id}`,
    )
  return database
}

/**
 * Queues the way back to the volume before the last restore, or before the last undo; exactly these two volumes change places. Throws
 * `ActRefused` when none is retained.
 */
export async function queueUndo(trx: Db, { databaseId, actor }: DatabaseAct): Promise<{ id: string }> {
  const database = await lockForAct(trx, databaseId)
  await demandIdle(trx, databaseId, 'undo')
  const { generation: from, retired_generation: to } = database
  if (!isUndoable(database, new Date())) throw new ActRefused(nothingToUndo)
  return enqueue(trx, database, { kind: 'undo', actor, input: { swap: { from, to } } })
}

/** Whether the volume before the last restore is still retained. */
export const isUndoable = (
  { retired_generation: generation, retired_until: until }: Pick<DatabaseRow, 'retired_generation' | 'retired_until'>,
  now: Date,
): boolean => generation !== null && until !== null && until > now

export const nothingToUndo =
  'There is nothing to undo: the data before a restore is retained for one day, and this database was not restored within that time.'

/** The restore or undo that has replaced the volume of a database last, while it is retained. */
export async function findLastSwap(
  db: Db,
  databaseId: string,
): Promise<{ kind: 'restore' | 'undo'; finished_at: Date } | undefined> {
  return db('operations')
    .where({ target_type: 'database', target_id: databaseId, state: 'success' })
    .whereIn('kind', ['restore', 'undo'])
    .orderBy('seq', 'desc')
    .first('kind', 'finished_at')
}

/** Queues the change to the image that its host has under the name of the database's image now. */
export async function queueUpgrade(trx: Db, { databaseId, actor }: DatabaseAct): Promise<{ id: string }> {
  const database = await lockForAct(trx, databaseId)
  await demandIdle(trx, databaseId, 'upgrade')
  return enqueue(trx, database, { kind: 'upgrade', actor })
}

/** Queues the start of a database that should run and does not; its crashes no longer count. */
export async function queueOperatorStart(trx: Db, { databaseId, actor }: DatabaseAct): Promise<{ id: string }> {
  const database = await lockForAct(trx, databaseId)
  await demandIdle(trx, databaseId, 'start')
  if (database.status === 'running') throw new ActRefused('The database is already running.')
  if (database.desired_state === 'stopped')
    throw new ActRefused(
      `It was stopped by its owner, or because a plan has ended. Only its owner can start it: POST /v2/databases/${databaseId}/start`,
    )
  await trx('databases').where({ id: databaseId }).update({ restarts: 0, restart_at: null })
  return enqueue(trx, database, { kind: 'start', actor })
}

async function demandIdle(trx: Db, id: string, kind: operations.DatabaseOperationKind): Promise<void> {
  const pending = await trx('operations')
    .where({ target_type: 'database', target_id: id, kind })
    .whereIn('state', ['queued', 'running'])
    .first('id')
  if (pending) throw new ActRefused(`This is already in progress: operation ${pending.id.slice(0, 8)} (${kind}).`)
}

interface Queued {
  kind: operations.DatabaseOperationKind
  actor: string
  input?: Record<string, unknown>
}

const enqueue = (trx: Db, { id, owner_id: ownerId }: DatabaseRow, queued: Queued): Promise<{ id: string }> =>
  operations.enqueueOperation(trx, { ...queued, targetType: 'database', targetId: id, ownerId })
