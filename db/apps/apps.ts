import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'
import { type AppRow, type AppStatus, appColumns } from './app-rows.ts'

export { type AppRow, type AppStatus, appColumns } from './app-rows.ts'

const ofOwner = statement<AppRow>(
  'apps.of-owner',
  `select ${appColumns} from apps where id = $1 and owner_id = $2 and not accepting`,
)

/** The application of this owner; undefined for those of other owners as for missing ones. */
export async function findApp(db: Db, ownerId: string, id: string): Promise<AppRow | undefined> {
  return (await ofOwner(db, [id, ownerId]))[0]
}

/** For workers, which act for the platform and not for an account. */
export async function loadApp(db: Db, id: string): Promise<AppRow | undefined> {
  return db('apps').where({ id }).first()
}

export async function listApps(db: Db, ownerId: string): Promise<AppRow[]> {
  return db('apps').where({ owner_id: ownerId, accepting: false }).orderBy('created_at')
}

/** What a host reads in its rounds, of every application once a minute: each additional column is read ten thousand times. */
const hostAppColumns = [
  'id',
  'owner_id',
  'name',
  'ram_mb',
  'autorestart',
  'desired_state',
  'status',
  'release',
  'container_id',
  'host_port',
  'started_at',
  'boot_id',
  'health_path',
] as const

export type HostApp = Pick<AppRow, (typeof hostAppColumns)[number]>

/** The applications of a host, oldest first, or those with some ids. */
export async function listAppsOfHost(db: Db, hostId: string, ids?: readonly string[]): Promise<HostApp[]> {
  const query = db('apps').where({ host_id: hostId }).orderBy('created_at').select(hostAppColumns)
  return ids ? query.whereIn('id', ids) : query
}

/** Ids of the applications of a host that have had a release, and with it a disk. */
export async function listReleasedApps(db: Db, hostId: string): Promise<string[]> {
  const released = db('apps').where({ host_id: hostId }).where('release', '>', 0).whereNot({ desired_state: 'deleted' })
  return released.orderBy('id').pluck('id')
}

/** Every application that has an address, with its owner. */
export async function listAccountsOfApps(db: Db): Promise<[app: string, account: string][]> {
  const rows = await db<AppRow>('apps').whereNotNull('subdomain').select('id', 'owner_id')
  return rows.map(({ id, owner_id: ownerId }) => [id, ownerId])
}

/** A running web application, as the proxy needs it. */
export interface ServingApp extends Pick<AppRow, 'id' | 'owner_id' | 'release' | 'cache_version'> {
  subdomain: string
  address: string
  /** 0 = no port is known in this boot of its host. */
  host_port: number
  /** The boot that its host has reported last. */
  boot_id: string | null
}

/** Every running web application, or only the one of `appId`, or those of some names. */
export async function listServingApps(db: Db, appId?: string, subdomains?: readonly string[]): Promise<ServingApp[]> {
  const query = db('apps')
    .join('hosts', 'hosts.id', 'apps.host_id')
    .whereNotNull('apps.subdomain')
    .where('apps.status', 'running')
    .select('apps.id', 'apps.owner_id', 'apps.subdomain', 'apps.release', 'apps.cache_version', 'hosts.boot_id')
    .select(
      db.raw('coalesce(apps.host_address, hosts.address) as address'),
      db.raw(`case when hosts.boot_id is null or hosts.boot_id = apps.boot_id then coalesce(apps.host_port, 0)
        else 0 end as host_port`),
    )
  if (subdomains) query.whereIn('apps.subdomain', subdomains)
  return appId ? query.where('apps.id', appId) : query
}

export async function recordStatus(db: Db, id: string, status: AppStatus): Promise<void> {
  await db('apps').where({ id }).whereNot('status', 'deleting').update({ status })
}

/** During a deletion this sets only the desired state for the case that it fails. */
export async function recordDesiredState(db: Db, id: string, desired: 'running' | 'stopped'): Promise<void> {
  await storeDesiredState(db, [id, desired])
}

const storeDesiredState = statement(
  'apps.desired',
  `update apps set desired_state = case when desired_state = 'deleted' then desired_state else $2 end,
          desired_if_kept = case when desired_state = 'deleted' then $2 end
    where id = $1`,
)

export interface RecordedStart {
  release: number
  containerId: string
  hostPort: number | null
  /** The address that port is published at; default: that of its host. */
  hostAddress?: string | null
  startedAt: Date
  bootId: string
  /** Left out by a caller that only saw that it runs: the version of its last start stays. */
  variablesVersion?: number
}

/** The row of an application, if no start or end was recorded since it was seen. */
const asSeen = (db: Db, { id, container_id, started_at, status }: HostApp) =>
  db('apps').where({ id, container_id, started_at, status })

/**
 * Records that the container of a release runs, and clears the exit of an earlier run. A port of an earlier boot of the host is not recorded.
 * What was `seen` from outside of an operation applies only to that run.
 */
export async function recordStarted(db: Db, id: string, started: RecordedStart, seen?: HostApp): Promise<void> {
  const { release, containerId, hostPort, hostAddress = null, startedAt, bootId, variablesVersion = null } = started
  const values = [id, release, containerId, hostPort, hostAddress, startedAt, bootId, variablesVersion]
  const write = async (trx: Db) => {
    if (!seen || (await asSeen(trx, seen).forNoKeyUpdate().first('id'))) await storeStart(trx, values)
  }
  await (db.isTransaction ? write(db) : transaction(db, write))
}

/** One statement, because the end of each start and restart waits for it. An older host reports no address. */
const storeStart = statement(
  'apps.started',
  `with place as (
     select host.id as host, case when host.boot_id is null or host.boot_id = $7 then $4::int end as port,
            coalesce($5::text, host.address) as address
       from apps join hosts host on host.id = apps.host_id where apps.id = $1
   ), others as (
     update apps set host_port = null from place
      where host_port = place.port and host_address = place.address and host_id = place.host and apps.id <> $1
     returning apps.id
   ), started as (
     update apps set status = 'running', release = $2, container_id = $3, host_port = place.port, host_address = place.address,
            started_at = $6, boot_id = $7, variables_running = coalesce($8::int, variables_running),
            exit_code = null, exit_oom = null, exit_at = null, health = null
       from place where apps.id = $1 and status <> 'deleting'
   )
   select pg_notify('apps', changed.id) from (select $1 as id union all select id from others) as changed`,
)

/** Whether a restart has left its application where its row says, in the same boot of its host. */
export async function hasPlace(
  db: Db,
  id: string,
  { release, hostPort, hostAddress = null, bootId }: RecordedStart,
): Promise<boolean> {
  return (await samePlace(db, [id, release, hostPort, hostAddress, bootId])).length === 1
}

const samePlace = statement(
  'apps.same-place',
  `select 1 from apps a join hosts h on h.id = a.host_id
    where a.id = $1 and a.status = 'restarting' and a.release = $2 and a.host_port is not distinct from $3::int
      and a.host_address = coalesce($4::text, h.address) and a.boot_id = $5 and coalesce(h.boot_id, $5) = $5`,
)

/**
 * The engine gave this port to the application's container: clears it from other applications of the same host. Their routes are
 * held until the host watch has found their state.
 */
export async function clearPortOfOthers(
  db: Db,
  id: string,
  hostPort: number,
  hostAddress: string | null = null,
): Promise<void> {
  await clearPort(db, [id, hostPort, hostAddress])
}

const clearPort = statement(
  'apps.clear-port',
  `with others as (
     update apps set host_port = null
      where host_port = $2 and host_address is not distinct from $3 and id <> $1
        and host_id = (select host_id from apps where id = $1)
     returning id
   )
   select pg_notify('apps', id) from others`,
)

export interface RecordedExit {
  code: number | null
  oom: boolean
  at: Date
}

/**
 * Records that a container ended on its own. Applies only to the run that `seen` describes, so that a later start is never
 * overwritten; true when the row changed.
 */
export async function recordExit(db: Db, seen: HostApp, exit: RecordedExit): Promise<boolean> {
  const changed = await asSeen(db, seen).update(ended(exit))
  if (changed) await announceApp(db, seen.id)
  return changed === 1
}

/** Records that an operation ended the container, or found it ended. */
export async function recordStopped(db: Db, id: string, exit: RecordedExit): Promise<void> {
  await db('apps').where({ id }).whereNot('status', 'deleting').update(ended(exit))
  await announceApp(db, id)
}

function ended(exit: RecordedExit) {
  return {
    status: 'exited',
    host_port: null,
    started_at: null,
    exit_code: exit.code,
    exit_oom: exit.oom,
    exit_at: exit.at,
    health: null,
  }
}

/** Locks the row of an application that counts as running and is to run, until the end of the transaction; false for any other. */
export async function holdRunning(trx: Db, id: string): Promise<boolean> {
  return (
    (await trx('apps').where({ id, status: 'running', desired_state: 'running' }).forUpdate().first('id')) !== undefined
  )
}

/** Stores the last statistics from a host, shown while the host does not answer. */
export async function recordStats(db: Db, id: string, stats: unknown): Promise<void> {
  await db('apps')
    .where({ id })
    .update({ last_stats: JSON.stringify(stats) })
}

/** Notifies every process that the route of this application may have changed. */
export async function announceApp(db: Db, id: string): Promise<void> {
  await db.raw(`select pg_notify('apps', ?)`, [id])
}
