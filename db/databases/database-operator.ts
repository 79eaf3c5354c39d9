import type { Db } from '../database.ts'
import type { DatabaseOperationKind, OperationState, TargetType } from '../operations/operation-kinds.ts'
import { targetTables } from '../operations/transient-states.ts'
import type { DatabaseRow } from './database-rows.ts'

/** What operators see of every database: no certificate, nothing sealed. */
const shownColumns = [
  'id',
  'owner_id',
  'name',
  'engine',
  'version',
  'image',
  'image_id',
  'ram_mb',
  'host_id',
  'port',
  'generation',
  'retired_generation',
  'retired_until',
  'password_generation',
  'certificate_ends_at',
  'certificate_renew_at',
  'renewal_failures',
  'read_only_since',
  'desired_state',
  'status',
  'started_at',
  'exit_code',
  'exit_oom',
  'exit_at',
  'crash_code',
  'crash_oom',
  'crash_at',
  'crash_times',
  'restarts',
  'restart_at',
  'snapshot_warn_at',
  'lost_with',
  'created_at',
] as const

/** An operation of a database that has not ended. */
export interface PendingOperation {
  id: string
  kind: DatabaseOperationKind
  state: OperationState
  step: string | null
  /** When it was claimed, or stored if it was not yet. */
  since: Date
}

export interface OperatedDatabase extends Pick<DatabaseRow, (typeof shownColumns)[number]> {
  owner_email: string
  /** The one that runs, else the next one. */
  pending: PendingOperation | null
}

export interface OperatedFilter {
  id?: string
  ownerId?: string
  hostId?: string
  limit: number
}

/** An operation that gives a database a password and has not ended, also one that waits for others. */
export async function findNewPassword(db: Db, id: string): Promise<{ id: string; kind: string } | undefined> {
  return db('operations')
    .where({ target_type: 'database', target_id: id })
    .whereIn('kind', ['create', 'rotate'])
    .whereIn('state', ['accepting', 'queued', 'running'])
    .first('id', 'kind')
}

/** Databases of all accounts, newest first; also those whose creation is not confirmed yet. */
export async function listOperatedDatabases(
  db: Db,
  { id, ownerId, hostId, limit }: OperatedFilter,
): Promise<OperatedDatabase[]> {
  const next = db.raw(
    `lateral (select o.id as pending_id, o.kind as pending_kind, o.state as pending_state, o.step as pending_step,
                     coalesce(o.started_at, o.created_at) as pending_since
                from operations o
               where o.target_type = 'database' and o.target_id = d.id and o.state in ('accepting', 'queued', 'running')
               order by o.state = 'running' desc, o.kind = 'delete' desc, o.seq limit 1) next`,
  )
  const rows = await db('databases as d')
    .join('users as u', 'u.id', 'd.owner_id')
    .joinRaw('left join ? on true', [next])
    .where(where => {
      if (id) where.where('d.id', id)
      if (ownerId) where.where('d.owner_id', ownerId)
      if (hostId) where.where('d.host_id', hostId)
    })
    .orderBy([{ column: 'd.created_at', order: 'desc' }, 'd.id'])
    .limit(limit)
    .select(shownColumns.map(column => `d.${column}`))
    .select('u.email as owner_email', 'next.*')
  return rows.map(({ pending_id, pending_kind, pending_state, pending_step, pending_since, ...database }) => ({
    ...database,
    pending: pending_id && {
      id: pending_id,
      kind: pending_kind,
      state: pending_state,
      step: pending_step,
      since: pending_since,
    },
  }))
}

/** Ids of the applications, or databases, that match an id or the start of one; 10 at most. */
export async function resolveTarget(db: Db, type: TargetType, start: string): Promise<string[]> {
  if (!/^[0-9a-f]{1,32}$/.test(start)) return []
  return db(targetTables[type]).where('id', 'like', `${start}%`).orderBy('id').limit(10).pluck('id')
}

/** Id of a deleted database that matches an id or the start of one, from its operations while these are retained. */
export async function findDeletedDatabase(db: Db, start: string): Promise<string | undefined> {
  if (!/^[0-9a-f]{1,32}$/.test(start)) return undefined
  const row = await db('operations')
    .where({ target_type: 'database' })
    .where('target_id', 'like', `${start}%`)
    .orderBy('seq', 'desc')
    .first('target_id')
  return row?.target_id
}

/** The same of one database; undefined when it is missing. */
export async function findOperatedDatabase(db: Db, id: string): Promise<OperatedDatabase | undefined> {
  return (await listOperatedDatabases(db, { id, limit: 1 }))[0]
}
