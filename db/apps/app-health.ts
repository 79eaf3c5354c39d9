import type { Health, HealthRestart } from '../../policy/hosts/health-checks.ts'
import { autorestart } from '../../policy/timeouts.ts'
import { type Db, transaction } from '../database.ts'
import { enqueueOperation, type OperationRow } from '../operations/operations.ts'
import type { AppRow } from './app-rows.ts'

/** As SQL: whether the last automatic restart was long enough ago. */
const autorestartDue = (apps: string): string =>
  `(${apps}.last_autorestart_at is null or ${apps}.last_autorestart_at < now() - interval '${autorestart.everyMinutes} minutes')`

/** Spends the one automatic restart that an hour allows; false when it was spent already. */
export async function spendAutorestart(db: Db, id: string): Promise<boolean> {
  const changed = await db('apps')
    .where({ id, autorestart: true, desired_state: 'running' })
    .whereRaw(autorestartDue('apps'))
    .update({ last_autorestart_at: db.fn.now() })
  return changed === 1
}

/** An application that its host is to check: one that runs, and names a path. */
export interface CheckedApp {
  id: string
  owner_id: string
  subdomain: string
  health_path: string
  health: Health | null
  container_id: string | null
  started_at: Date
  address: string
  host_port: number
  /** Whether AUTORESTART may end this run at all now; the row decides again when it is to happen. */
  may_restart: boolean
}

/** Those of these applications that its host can check now: they run, and their port is one of this boot. */
export async function listCheckedApps(db: Db, hostId: string, ids: readonly string[]): Promise<CheckedApp[]> {
  const { rows } = await db.raw(
    `select a.id, a.owner_id, a.subdomain, a.health_path, a.health, a.container_id, a.started_at, a.host_port,
            coalesce(a.host_address, h.address) as address, a.autorestart and not h.draining and ${autorestartDue('a')} as may_restart
       from apps a join hosts h on h.id = a.host_id
      where a.host_id = :hostId and a.id = any(:ids::text[]) and a.health_path is not null and a.subdomain is not null
        and a.status = 'running' and a.desired_state = 'running' and a.host_port is not null and a.started_at is not null
        and (h.boot_id is null or h.boot_id = a.boot_id)`,
    { hostId, ids },
  )
  return rows
}

type Run = Pick<CheckedApp, 'id' | 'container_id' | 'started_at' | 'health_path'>

/** The row of a run that goes on, and is still to be checked in this way. */
const ofRun = ({ id, container_id, started_at, health_path }: Run): Partial<AppRow> => ({
  ...{ id, container_id, started_at, health_path, status: 'running', desired_state: 'running' },
})

/**
 * Records the health of a run, from now on; false when that run is over. Names of its load balancer are announced by a trigger when it
 * leaves the rotation or comes back.
 */
export async function recordHealth(db: Db, run: Run, health: Pick<Health, 'status' | 'reason'>): Promise<boolean> {
  const since = db.raw(`to_jsonb(to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))`)
  const changed = await db('apps')
    .where(ofRun(run))
    .update({ health: db.raw(`?::jsonb || jsonb_build_object('since', ?)`, [JSON.stringify(health), since]) })
  return changed === 1
}

/** Of the restarts that hosts request for the health of an application. */
export const healthActor = 'health-check'

/**
 * Queues the restart of an unhealthy run, at most one in the time that AUTORESTART permits; false when that is spent, the run is over, its
 * host is draining, or an operation of the application waits or runs.
 */
export async function restartUnhealthy(db: Db, run: Run, reason: string): Promise<boolean> {
  return transaction(db, async trx => {
    const app: AppRow | undefined = await trx('apps').where(ofRun(run)).forUpdate().first()
    if (!app || !isToBeRestarted(app) || (await isOperated(trx, app)) || !(await spendAutorestart(trx, app.id)))
      return false
    const before: Before = { lastRestart: app.last_autorestart_at?.toISOString() ?? null, restart: app.health_restart }
    const restart: HealthRestart = { at: new Date().toISOString(), reason }
    await trx('apps')
      .where({ id: app.id })
      .update({ health_restart: JSON.stringify(restart) })
    await enqueueOperation(trx, {
      ...{ targetId: app.id, kind: 'restart', ownerId: app.owner_id, actor: healthActor },
      input: { reason, containerId: app.container_id, startedAt: app.started_at?.toISOString(), before },
    })
    return true
  })
}

/** Whether anything of this application waits or runs, builds and snapshots too, or its host takes nothing on. */
async function isOperated(trx: Db, { id, host_id: hostId }: AppRow): Promise<boolean> {
  const pending = trx('operations')
    .where({ target_type: 'app', target_id: id })
    .whereIn('state', ['accepting', 'queued', 'running'])
  return Boolean((await pending.first('id')) ?? (await trx('hosts').where({ id: hostId, draining: true }).first('id')))
}

/** What a restart that never starts has to leave as it was. */
interface Before {
  lastRestart: string | null
  restart: HealthRestart | null
}

/** Whether the health of this run still asks for its restart, and its configuration too. */
const isToBeRestarted = (app: AppRow): boolean =>
  app.status === 'running' &&
  app.desired_state === 'running' &&
  app.autorestart &&
  app.health_path !== null &&
  app.health?.status === 'unhealthy'

type QueuedRestart = Pick<OperationRow, 'id' | 'target_id' | 'input'>

/** Whether a restart for the health of a run has lost its reason: that run is over, works again, or is not to be restarted any more. */
export async function isRestartOutdated(db: Db, { target_id: id, input }: Omit<QueuedRestart, 'id'>): Promise<boolean> {
  const app: AppRow | undefined = await db('apps').where({ id }).first()
  if (!app) return false
  const isSameRun = app.container_id === input.containerId && app.started_at?.toISOString() === input.startedAt
  return !isSameRun || !isToBeRestarted(app)
}

/** Takes back what a restart that never starts has recorded: its hour is not spent. Does nothing once a later restart has spent it. */
export async function takeBackRestart(db: Db, { id, target_id: appId, input }: QueuedRestart): Promise<void> {
  const before = input.before as Before | undefined
  if (!before) return
  // Both were written in one transaction, whose time they have.
  const since = db('operations').where({ id }).select('created_at')
  await db('apps')
    .where({ id: appId })
    .where('last_autorestart_at', since)
    .update({
      last_autorestart_at: before.lastRestart,
      health_restart: before.restart && JSON.stringify(before.restart),
    })
}

/** How many running applications are checked, and the ids of those that are unhealthy, for operators. */
export async function countChecked(db: Db): Promise<{ checked: number; unhealthy: string[] }> {
  const running = () => db('apps').where({ status: 'running' }).whereNotNull('health_path')
  const { count } = await running().first(db.raw('count(*)::int as count'))
  const unhealthy =
    count === 0 ? [] : await running().whereRaw(`health->>'status' = 'unhealthy'`).orderBy('id').pluck('id')
  return { checked: count, unhealthy }
}
