import type { RecordedExit } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import { type DatabaseRow, databaseColumns } from './database-rows.ts'

export type { DatabaseRow } from './database-rows.ts'

const ofOwner = statement<DatabaseRow>(
  'databases.of-owner',
  `select ${databaseColumns} from databases where id = $1 and owner_id = $2 and not accepting`,
)

/** The database of this owner; undefined for those of other owners as for missing ones. */
export async function findDatabase(db: Db, ownerId: string, id: string): Promise<DatabaseRow | undefined> {
  return (await ofOwner(db, [id, ownerId]))[0]
}

/** For workers, which act for the platform and not for an account. */
export async function loadDatabase(db: Db, id: string): Promise<DatabaseRow | undefined> {
  return db('databases').where({ id }).first()
}

/** The same, locked until the transaction ends: its password and state do not change meanwhile. */
export async function lockDatabase(trx: Db, id: string): Promise<DatabaseRow | undefined> {
  return trx('databases').where({ id }).forUpdate().first()
}

/** Oldest first. */
export async function listDatabases(db: Db, ownerId: string): Promise<DatabaseRow[]> {
  return db('databases').where({ owner_id: ownerId, accepting: false }).orderBy('created_at')
}

/** What a host reads in its rounds, of every database once a minute. */
const hostColumns = [
  'id',
  'owner_id',
  'name',
  'engine',
  'version',
  'ram_mb',
  'port',
  'generation',
  'desired_state',
  'status',
  'container_id',
  'started_at',
  'exit_at',
  'boot_id',
  'restarts',
  'restart_at',
  'read_only_since',
  'memory_warned_at',
  'disk_warned',
] as const

export type HostDatabase = Pick<DatabaseRow, (typeof hostColumns)[number]>

/** The databases of a host, oldest first, or those with some ids. */
export async function listDatabasesOfHost(db: Db, hostId: string, ids?: readonly string[]): Promise<HostDatabase[]> {
  const query = db('databases').where({ host_id: hostId }).orderBy('created_at').select(hostColumns)
  return ids ? query.whereIn('id', ids) : query
}

export async function renameDatabase(db: Db, id: string, name: string): Promise<void> {
  await db('databases').where({ id }).update({ name })
}

/** Records what a database may use from now on, which was reserved before (`reserveMoreMemory`), and the `name` that was requested with it. */
export async function recordDatabaseMemory(
  trx: Db,
  id: string,
  { ramMb, cpu, name }: { ramMb: number; cpu: number; name?: unknown },
): Promise<void> {
  await trx('databases')
    .where({ id })
    .update({ ram_mb: ramMb, cpu, ...(typeof name === 'string' && { name }) })
  await releaseUnusedMemory(trx, id)
}

/** Reserves for a database what it may use, or what a change of size that waits or runs would give it, and no more. */
export async function releaseUnusedMemory(trx: Db, id: string): Promise<void> {
  await trx('databases').where({ id }).forUpdate().first('id') // so that the next statement sees every change that is stored
  await trx.raw(
    `update databases d
        set reserved_mb = greatest(d.ram_mb, (
              select max((o.input->>'ramMb')::integer) from operations o
               where o.target_type = 'database' and o.target_id = d.id and o.kind = 'resize'
                 and o.state in ('accepting', 'queued', 'running')))
      where d.id = ?`,
    [id],
  )
}

/** Stores the last statistics from a host, shown while the host does not answer. */
export async function recordDatabaseStats(db: Db, id: string, stats: unknown): Promise<void> {
  await db('databases')
    .where({ id })
    .update({ last_stats: JSON.stringify(stats) })
}

export async function recordDatabaseStatus(db: Db, id: string, status: DatabaseRow['status']): Promise<void> {
  await db('databases').where({ id }).whereNot('status', 'deleting').update({ status })
}

/** During a deletion this sets only the desired state for the case that it fails. */
export async function recordDatabaseDesired(db: Db, id: string, desired: 'running' | 'stopped'): Promise<void> {
  const deleted = `desired_state = 'deleted'`
  await db('databases')
    .where({ id })
    .update({
      desired_state: db.raw(`case when ${deleted} then desired_state else ? end`, [desired]),
      desired_if_kept: db.raw(`case when ${deleted} then ? end`, [desired]),
    })
}

export interface RecordedDatabaseStart {
  containerId: string
  startedAt: Date
  bootId: string
  /** The image that it runs with; omitted = the one that the row has. */
  imageId?: string | undefined
}

/** Records that the engine of a database serves. Clears the exit of an earlier run, and the restart that was due. */
export async function recordDatabaseStarted(
  db: Db,
  id: string,
  { containerId, startedAt, bootId, imageId }: RecordedDatabaseStart,
): Promise<void> {
  await db('databases')
    .where({ id })
    .whereNot('status', 'deleting')
    .update({
      status: 'running',
      container_id: containerId,
      started_at: startedAt,
      boot_id: bootId,
      ...(imageId !== undefined && { image_id: imageId }),
      restart_at: null,
      exit_code: null,
      exit_oom: null,
      exit_at: null,
    })
}

/** Records the image that a database runs with from its next start on. */
export async function recordDatabaseImage(trx: Db, id: string, imageId: string): Promise<void> {
  await trx('databases').where({ id }).update({ image_id: imageId })
}

/** Records that an operation ended the engine, or found it ended. */
export async function recordDatabaseStopped(db: Db, id: string, exit: RecordedExit): Promise<void> {
  await db('databases')
    .where({ id })
    .whereNot('status', 'deleting')
    .update({ ...ended(exit), restart_at: null })
}

/**
 * Records that an engine ended on its own. Applies only to the run that `seen` describes, so that a later start is never overwritten;
 * true when the row changed.
 */
export async function recordDatabaseExit(db: Db, seen: HostDatabase, exit: RecordedExit): Promise<boolean> {
  const { id, container_id, started_at, status } = seen
  return (await db('databases').where({ id, container_id, started_at, status }).update(ended(exit))) === 1
}

function ended({ code, oom, at }: RecordedExit) {
  return { status: 'exited', started_at: null, exit_code: code, exit_oom: oom, exit_at: at }
}

/** Its first start has succeeded: from now on a failure does not remove it. */
export async function recordDatabaseProvisioned(db: Db, id: string): Promise<void> {
  await db('databases').where({ id }).whereNull('provisioned_at').update({ provisioned_at: db.fn.now() })
}
