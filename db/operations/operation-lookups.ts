import { isOfThisEnd } from '../../policy/databases/database-problems.ts'
import type { Db } from '../database.ts'
import {
  concurrentKinds,
  type OperationRow,
  type OperationTarget,
  switchingVersions,
  type TargetType,
  watchActor,
} from './operation-kinds.ts'

/** Whether a waiting or running operation of this target may start or end its containers. */
export async function isTargetBusy(db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> {
  const row = await db('operations')
    .where({ target_type: type, target_id: targetId })
    .whereIn('state', ['queued', 'running'])
    .where(where => where.whereNotIn('kind', concurrentKinds.flat()).orWhere('step', 'like', `${switchingVersions}%`))
    .first('id')
  return Boolean(row)
}

/** Whether a running operation of this target may have switched its containers a moment ago. */
export async function isTargetSwitching(db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> {
  const row = await db('operations')
    .where({ target_type: type, target_id: targetId, state: 'running' })
    .where(where => where.whereNotIn('kind', concurrentKinds.flat()).orWhere('step', 'like', `${switchingVersions}%`))
    .first('id')
  return Boolean(row)
}

/** Subdomains of the applications for which `isTargetSwitching` holds. */
export function listSwitchingSubdomains(db: Db): Promise<string[]> {
  return db('operations')
    .join('apps', 'apps.id', 'operations.target_id')
    .where({ 'operations.target_type': 'app', 'operations.state': 'running' })
    .where(where =>
      where
        .whereNotIn('operations.kind', concurrentKinds.flat())
        .orWhere('operations.step', 'like', `${switchingVersions}%`),
    )
    .whereNotNull('apps.subdomain')
    .distinct()
    .pluck('apps.subdomain')
}

/** Whether a missing application, or database, was deleted on purpose: by its deletion, or because its creation failed. */
export async function wasTargetRemoved(db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> {
  const row = await db('operations')
    .where({ target_type: type, target_id: targetId })
    .where(how =>
      how
        .where(deletion => deletion.where({ kind: 'delete' }).whereIn('state', ['running', 'success']))
        .orWhere(creation => creation.where({ kind: 'create' }).whereIn('state', ['error', 'cancelled'])),
    )
    .first('id')
  return Boolean(row)
}

/** Whether a running operation of this target switches the serving release. */
export async function isReleaseSwitching(db: Db, targetId: string): Promise<boolean> {
  const row = await db('operations')
    .where({ target_type: 'app', target_id: targetId, state: 'running' })
    .whereIn('kind', ['create', 'deploy', 'restore'])
    .first('id')
  return Boolean(row)
}

/** Whether the operation of this release waits or runs; one that has ended never runs again. */
export async function isReleasePending(db: Db, appId: string, release: number): Promise<boolean> {
  const row = await db('deployments')
    .join('operations', 'operations.id', 'deployments.operation_id')
    .where({ 'deployments.app_id': appId, 'deployments.release': release })
    .whereIn('operations.state', ['accepting', 'queued', 'running'])
    .first('operations.id')
  return Boolean(row)
}

/** The failed creation of this owner's application, or database, when that is why it is missing. */
export async function findFailedCreation(
  db: Db,
  ownerId: string,
  targetId: string,
  type: TargetType = 'app',
): Promise<OperationRow | undefined> {
  const [creation, deletion]: OperationRow[] = await db('operations')
    .where({ target_type: type, target_id: targetId, owner_id: ownerId })
    .where(where => where.where({ kind: 'create', state: 'error' }).orWhere({ kind: 'delete', state: 'success' }))
    .orderBy('seq')
    .limit(2)
  return creation?.kind === 'create' && !deletion ? creation : undefined
}

/** Whether a restore of this application, or database, waits or runs. */
export const isRestorePending = (db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> =>
  isPending(db, { type, id: targetId }, 'restore')

/** Whether a deletion of this application, or database, waits or runs. */
export const isDeletionPending = (db: Db, targetId: string, type: TargetType = 'app'): Promise<boolean> =>
  isPending(db, { type, id: targetId }, 'delete')

async function isPending(db: Db, { type, id }: OperationTarget, kind: 'restore' | 'delete'): Promise<boolean> {
  const pending = db('operations')
    .where({ target_type: type, target_id: id, kind })
    .whereIn('state', ['accepting', 'queued', 'running'])
  return Boolean(await pending.first('id'))
}

/** Seconds until the caller of an operation is answered, negative afterwards; null when no caller waits. */
export async function secondsUntilAnswer(db: Db, id: string): Promise<number | null> {
  const row = await db('operations')
    .where({ id })
    .first(db.raw('extract(epoch from end_before - clock_timestamp())::float8 as seconds'))
  return row?.seconds ?? null
}

/** Whether the operation before this one, of its target and kind, has failed: what it was to change may be half changed. */
export async function hasFailedBefore(db: Db, { type, id: targetId }: OperationTarget, id: string): Promise<boolean> {
  const { seq, kind } = await db('operations').where({ id }).first('seq', 'kind')
  const before = await db('operations')
    .where({ target_type: type, target_id: targetId, kind })
    .where('seq', '<', seq)
    .orderBy('seq', 'desc')
    .first('state')
  return before?.state === 'error'
}

export interface WaitingTarget {
  target_type: TargetType
  target_id: string
  owner_id: string
  /** Whether an operation of this target runs; its lane must be alive then. */
  running: boolean
  /** Whether the end of a running one was requested: its lane may not have noticed. */
  cancelling: boolean
  /** Age of the oldest of them. */
  seconds: number
}

export interface WaitingFor {
  /** Targets with an operation that has been queued for this long, */
  queuedSeconds: number
  /** or has been running for this long, */
  runningSeconds: number
  /** except targets with these ids. */
  except: readonly string[]
}

/** Targets whose lane may need a wake-up: those without a running operation first, then by age; up to 500. */
export async function listWaitingTargets(
  db: Db,
  { queuedSeconds, runningSeconds, except }: WaitingFor,
): Promise<WaitingTarget[]> {
  const { rows } = await db.raw(
    `select target_type, target_id, min(owner_id) as owner_id, bool_or(state = 'running') as running,
            bool_or(state = 'running' and cancel_requested_at is not null) as cancelling,
            extract(epoch from now() - min(created_at))::float8 as seconds
       from operations where state in ('queued', 'running') and target_id <> all(:except::text[])
      group by target_type, target_id
     having bool_or(state = 'queued' and created_at < now() - make_interval(secs => :queuedSeconds))
         or bool_or(state = 'running' and started_at < now() - make_interval(secs => :runningSeconds))
      order by bool_or(state = 'running'), min(seq) limit 500`,
    { queuedSeconds, runningSeconds, except },
  )
  return rows
}

/** Why the last start of a database that has ended failed; undefined when it succeeded, or its engine ran after it. */
export async function findFailedStart(
  db: Db,
  { id, exit_at: exitAt }: { id: string; exit_at: Date | null },
): Promise<{ code: string; message: string } | undefined> {
  const last = await db('operations')
    .where({ target_type: 'database', target_id: id, kind: 'start' })
    .whereIn('state', ['success', 'error', 'expired'])
    .orderBy('seq', 'desc')
    .first('state', 'code', 'message', 'finished_at')
  if (!last || last.state === 'success' || !isOfThisEnd({ exitAt, failedAt: last.finished_at })) return undefined
  return { code: last.code ?? 'ACTION_FAILED', message: last.message ?? 'Its host did not begin with it in time.' }
}

/** Whether a stop or a deletion of a database waits for its lane, which its caller was not answered yet. */
export async function isEndWaiting(db: Db, databaseId: string): Promise<boolean> {
  const row = await db('operations')
    .where({ target_type: 'database', target_id: databaseId, state: 'queued' })
    .whereIn('kind', ['stop', 'delete'])
    .whereRaw('(claim_before is null or claim_before > now())')
    .first('id')
  return row !== undefined
}

/** Whether the host watch has queued this start, and what it was to start is to be stopped by now: a stop that was just accepted was ahead of it. */
export async function isStartUnwanted(
  db: Db,
  { kind, actor, target_type: type, target_id: id }: OperationRow<string>,
): Promise<boolean> {
  if (kind !== 'start' || actor !== watchActor) return false
  const table = type === 'app' ? 'apps' : 'databases'
  return (await db(table).where({ id }).whereNot('desired_state', 'running').first('id')) !== undefined
}
