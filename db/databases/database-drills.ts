import { diskMbFor } from '../../policy/apps/sizes.ts'
import { type DrillOutcome, drillRules } from '../../policy/databases/drills.ts'
import type { DatabaseHost } from '../../policy/databases/placement.ts'
import { acceptsMore, bestWithRoom } from '../../policy/hosts/placement.ts'
import type { Db } from '../database.ts'
import { deleteExpired } from '../expired-rows.ts'
import { listCapacities } from '../hosts/hosts.ts'
import * as operations from '../operations/operations.ts'
import { ActRefused } from '../operations/operator-acts.ts'
import { type DatabaseAct, lockForAct } from './database-acts.ts'
import type { DatabaseRow } from './database-rows.ts'

/** What a drill has shown: whether a snapshot can be restored. */
export interface DrillEvidence {
  id: string
  database_id: string
  owner_id: string
  operation_id: string
  actor: string
  snapshot_id: string | null
  snapshot_at: Date | null
  /** Where it was restored. */
  host_id: string
  outcome: DrillOutcome
  /** Catalogue code of the reason; null also for evidence of an earlier version. */
  code: string | null
  reason: string | null
  /** Bytes of the archive; Postgres gives it as text. */
  size: string | null
  /** Of what was restored, and the one that was recorded with the snapshot. */
  digest: string | null
  expected: string | null
  started_at: Date
  ended_at: Date
}

/** Seconds that a drill took, with the wait for its host. */
export const drillSeconds = ({ started_at: from, ended_at: to }: DrillEvidence): number =>
  Math.round((to.getTime() - from.getTime()) / 1000)

/**
 * Queues the restore of the newest good snapshot of a database into a scratch engine, on another host if there is one with its image and
 * room. Null when that host does a drill already, unless `evenBusy`. Throws `ActRefused` without a snapshot, and while a drill is under way.
 */
export async function queueDrill(
  trx: Db,
  { databaseId, actor }: DatabaseAct,
  { diskMbPer256Mb, evenBusy }: { diskMbPer256Mb: number; evenBusy: boolean },
): Promise<{ id: string; hostId: string } | null> {
  const database = await lockForAct(trx, databaseId)
  const snapshot = await newestSnapshot(trx, databaseId)
  if (!snapshot) throw new ActRefused('It has no snapshot that could be restored.')
  const pending = await pendingDrills(trx)
  const own = pending.find(({ target_id: id }) => id === databaseId)
  if (own) throw new ActRefused(`A drill of it is already in progress: operation ${own.id.slice(0, 8)}.`)
  const hostId = drillHost(await listCapacities(trx, diskMbPer256Mb), database, diskMbPer256Mb)
  if (!evenBusy && pending.some(({ host_id: id }) => id === hostId)) return null
  // Also when nothing comes of it: otherwise one that can never be done would be requested in every round.
  const later = trx.raw('now() + make_interval(secs => ?)', [drillRules.retrySeconds])
  await trx('databases').where({ id: databaseId }).update({ drill_after: later })
  const { id } = await operations.enqueueOperation(trx, {
    ...({ targetType: 'database', targetId: databaseId, kind: 'drill', ownerId: database.owner_id, actor } as const),
    input: { snapshotId: snapshot.id, drillHost: hostId },
  })
  return { id, hostId }
}

async function newestSnapshot(trx: Db, databaseId: string): Promise<{ id: string } | undefined> {
  return trx('snapshots')
    .where({ target_type: 'database', target_id: databaseId, state: 'good' })
    .orderBy('created_at', 'desc')
    .first('id')
}

async function pendingDrills(db: Db): Promise<{ id: string; target_id: string; host_id: string }[]> {
  return db('operations')
    .where({ target_type: 'database', kind: 'drill' })
    .whereIn('state', ['queued', 'running'])
    .select('id', 'target_id', db.raw(`input->>'drillHost' as host_id`))
}

/** Another host with the image and room for two volumes; otherwise the one that the database is on. */
export function drillHost(
  hosts: readonly DatabaseHost[],
  { host_id: own, image, ram_mb: ramMb }: Pick<DatabaseRow, 'host_id' | 'image' | 'ram_mb'>,
  diskMbPer256Mb: number,
): string {
  const others = hosts.filter(host => host.id !== own && acceptsMore(host) && host.images[image] === 'ready')
  const need = { memoryMb: Math.max(drillRules.minMemoryMb, ramMb), diskMb: 2 * diskMbFor(ramMb, diskMbPer256Mb) }
  return bestWithRoom(others, need)?.id ?? own
}

/**
 * Ids and owners of databases whose newest snapshot must be tried: those without good evidence for `everyDays`. Each account has one
 * before another has two, the account first whose last one is longest ago; then the longest waiting first.
 */
export async function listDueDrills(
  db: Db,
  { everyDays, limit }: { everyDays: number; limit: number },
): Promise<{ id: string; owner_id: string }[]> {
  const { rows } = await db.raw(
    `select id, owner_id from (
       select d.id, d.owner_id, coalesce(d.drill_after, d.created_at) as since,
              (select max(own.drill_after) from databases own where own.owner_id = d.owner_id) as last,
              row_number() over (partition by d.owner_id order by coalesce(d.drill_after, d.created_at), d.id) as number
         from databases d
        where d.provisioned_at is not null and d.lost_with is null and d.desired_state <> 'deleted'
          and (d.drill_after is null or d.drill_after <= now())
          and exists (select from snapshots s where s.target_type = 'database' and s.target_id = d.id and s.state = 'good')
          and not exists (select from database_drills e
                           where e.database_id = d.id and e.outcome = 'good'
                             and e.ended_at > now() - make_interval(days => :everyDays))
          and not exists (select from operations o
                           where o.target_type = 'database' and o.target_id = d.id and o.kind in ('drill', 'restore', 'delete')
                             and o.state in ('queued', 'running'))) due
      order by number, last nulls first, since, id limit :limit`,
    { everyDays, limit },
  )
  return rows
}

type NewEvidence = Pick<DrillEvidence, 'host_id' | 'outcome' | 'code' | 'reason' | 'digest'>

/** Stores what a drill has shown, once for each operation. */
export async function recordDrill(trx: Db, operationId: string, evidence: NewEvidence): Promise<void> {
  const operation = await operations.findOperation(trx, operationId)
  if (!operation) return
  const { target_id: databaseId, owner_id: ownerId, actor, started_at: startedAt, created_at: createdAt } = operation
  const snapshotId = String(operation.input.snapshotId)
  const snapshot = await trx('snapshots').where({ id: snapshotId }).first('created_at', 'size', 'contents')
  await trx('database_drills')
    .insert({
      ...{ id: operationId, operation_id: operationId, database_id: databaseId, owner_id: ownerId, actor },
      ...{ snapshot_id: snapshotId, snapshot_at: snapshot?.created_at, size: snapshot?.size },
      ...{ expected: snapshot?.contents, started_at: startedAt ?? createdAt, ended_at: trx.raw('clock_timestamp()') },
      ...evidence,
    })
    .onConflict('operation_id')
    .ignore()
}

/** Newest first; with `tried` only those that were not prevented. */
export async function listDrills(
  db: Db,
  { databaseId, tried = false, limit }: { databaseId?: string | undefined; tried?: boolean; limit: number },
): Promise<DrillEvidence[]> {
  return db('database_drills')
    .where(where => void (databaseId && where.where({ database_id: databaseId })))
    .where(where => void (tried && where.whereNot({ outcome: 'prevented' })))
    .orderBy([{ column: 'ended_at', order: 'desc' }, 'id'])
    .limit(limit)
}

/** The evidence of one drill; undefined while it runs, and when it ended without. */
export async function findDrill(db: Db, operationId: string): Promise<DrillEvidence | undefined> {
  return db('database_drills').where({ operation_id: operationId }).first()
}

/** The newest evidence of databases that exist, where it is of a failure; newest first, 100 at most. A drill that was prevented clears none. */
export async function listFailingDrills(db: Db): Promise<DrillEvidence[]> {
  const { rows } = await db.raw(
    `select e.* from databases d
      cross join lateral (select * from database_drills
                           where database_id = d.id and outcome <> 'prevented' order by ended_at desc, id limit 1) e
      where e.outcome = 'failed' order by e.ended_at desc limit 100`,
  )
  return rows
}

/**
 * The newest evidence of databases whose last drill was prevented, and that have none that is good for twice the days after which they are to be
 * tried; newest first, 100 at most. None for `everyDays` 0.
 */
export async function listPreventedDrills(
  db: Db,
  { everyDays, databaseId = null }: { everyDays: number; databaseId?: string | null },
): Promise<DrillEvidence[]> {
  if (everyDays === 0) return []
  const { rows } = await db.raw(
    `select e.* from databases d
      cross join lateral (select * from database_drills where database_id = d.id order by ended_at desc, id limit 1) e
      where e.outcome = 'prevented' and d.id = coalesce(:databaseId, d.id)
        and d.created_at < now() - make_interval(days => :days)
        and not exists (select from database_drills good
                         where good.database_id = d.id and good.outcome = 'good'
                           and good.ended_at > now() - make_interval(days => :days))
      order by e.ended_at desc limit 100`,
    { databaseId, days: 2 * everyDays },
  )
  return rows
}

/** Deletes evidence that is no longer retained. */
export const sweepDrills = (db: Db): Promise<number> =>
  deleteExpired(db, {
    table: 'database_drills',
    when: 'old.ended_at < now() - make_interval(days => :days)',
    values: { days: drillRules.retainedDays },
  })
