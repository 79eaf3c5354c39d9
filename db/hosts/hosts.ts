import type { DatabasePlace } from '../../policy/databases/connection-url.ts'
import type { DatabaseHost } from '../../policy/databases/placement.ts'
import type { BuildFact } from '../../policy/hosts/build-settings.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import type { Db } from '../database.ts'

export interface HostRow {
  id: string
  address: string
  read_url: string | null
  memory_mb: number
  /** What it promises of its disk, which changes with what else uses that. */
  disk_mb: number
  protections: Record<string, string>
  /** What its builds use, by name. */
  builds: Record<string, BuildFact>
  /** By image: `ready`, or why this host will never have it. One that is missing is being fetched. */
  database_images: Record<string, string>
  /** Ids of images that the host has, by name. */
  database_image_ids: Record<string, string>
  /** Suffix of the names of its databases; null for a host of an older version that has never had a newer one. */
  database_domain: string | null
  /** Where its databases listen, that of URLs first; null likewise. */
  database_addresses: string[] | null
  /** Its cache of install results; null without one, and for a host of an older version. */
  install_cache: InstallCacheSize | null
  draining: boolean
  last_seen_at: Date
  /** When an operator declared it permanently lost. */
  forgotten_at: Date | null
  reachable: boolean
}

/** What a host's cache of install results holds, and what it may hold. */
export interface InstallCacheSize {
  results: number
  mb: number
  maxMb: number
}

const reachable = (db: Db) =>
  db.raw(
    `(hosts.forgotten_at is null and hosts.last_seen_at > now() - make_interval(secs => ${unreachableAfterSeconds})) as reachable`,
  )

export interface HostRegistration {
  id: string
  address: string
  readUrl: string
  memoryMb: number
  diskMb: number
  protections: Record<string, string>
  builds?: Record<string, BuildFact>
  /** Where its databases are reached; missing = as of an older version. */
  databases?: DatabasePlace
}

/** Stores a host, new or returning. `draining` stays as it was. */
export async function registerHost(db: Db, host: HostRegistration): Promise<void> {
  const row = {
    id: host.id,
    address: host.address,
    read_url: host.readUrl,
    memory_mb: host.memoryMb,
    disk_mb: host.diskMb,
    protections: JSON.stringify(host.protections),
    builds: JSON.stringify(host.builds ?? {}),
    database_domain: host.databases?.domain ?? null,
    database_addresses: host.databases?.addresses ?? null,
    last_seen_at: db.fn.now(),
  }
  await db('hosts').insert(row).onConflict('id').merge()
}

/** Records that the host is alive. */
export async function recordHostSeen(db: Db, id: string): Promise<void> {
  await db('hosts').where({ id }).update({ last_seen_at: db.fn.now() })
}

/** Records what a host promises of its disk. What is reserved already stays, also where that is more. */
export async function recordDiskPromise(db: Db, id: string, diskMb: number): Promise<void> {
  await db('hosts').where({ id }).update({ disk_mb: diskMb })
}

/** Records the state of one protection of a host, for people. */
export async function recordProtection(db: Db, id: string, name: string, state: string): Promise<void> {
  const protections = db.raw('protections || jsonb_build_object(?::text, ?::text)', [name, state])
  await db('hosts').where({ id }).update({ protections })
}

/** Records one fact about the builds of a host, for people. */
export async function recordBuildFact(db: Db, id: string, name: string, fact: BuildFact): Promise<void> {
  const builds = db.raw('builds || jsonb_build_object(?::text, ?::jsonb)', [name, JSON.stringify(fact)])
  await db('hosts').where({ id }).update({ builds })
}

/** Records what the cache of install results of a host holds, for operators. */
export async function recordInstallCache(db: Db, id: string, size: InstallCacheSize | null): Promise<void> {
  await db('hosts')
    .where({ id })
    .update({ install_cache: size && JSON.stringify(size) })
}

/** Makes a host unreachable immediately, when it shuts down. */
export async function recordHostLeft(db: Db, id: string): Promise<void> {
  await db('hosts')
    .where({ id })
    .update({ last_seen_at: new Date(0) })
}

/** Call it in a transaction: once that is committed, no placement that began before is still under way. */
export async function setDraining(db: Db, id: string, draining: boolean): Promise<boolean> {
  await lockPlacements(db)
  return (await db('hosts').where({ id }).update({ draining })) === 1
}

export async function findHost(db: Db, id: string): Promise<HostRow | undefined> {
  return db('hosts').select('hosts.*', reachable(db)).where({ id }).first()
}

export async function listHosts(db: Db): Promise<HostRow[]> {
  return db('hosts').select('hosts.*', reachable(db)).orderBy('id')
}

/** What each application and database has reserved of its host: MB of memory, and disk for each 256 MB that its volumes were made for. */
const reservedOnHosts = `
  select host_id, ram_mb as mb, ceil(disk_for_mb / 256.0) as disk, 1 as app, 0 as hosted from apps
  union all
  select host_id, reserved_mb, ceil(greatest(disk_for_mb, reserved_mb) / 256.0) * case when retired_until > now() then 2 else 1 end, 0, 1 from databases`

/**
 * Serializes all that reserves something of a host, until the transaction ends. Not by locks of the rows: hosts update these every second,
 * and would count as unreachable while a process that is suspended holds them.
 */
export async function lockPlacements(trx: Db): Promise<void> {
  await trx.raw(`select pg_advisory_xact_lock(hashtext('berth.placements'))`)
}

/**
 * Every host that was not forgotten, with what its applications and databases have reserved. Until the transaction ends nothing else is
 * reserved, and none is forgotten. Disk follows the most memory that each has had, because volumes never shrink.
 */
export async function lockCapacities(trx: Db, diskMbPer256Mb: number): Promise<DatabaseHost[]> {
  await lockPlacements(trx)
  return capacitiesOf(trx, await hostsInUse(trx).forKeyShare(), diskMbPer256Mb)
}

/** The same without a lock, for what reserves nothing. */
export async function listCapacities(db: Db, diskMbPer256Mb: number): Promise<DatabaseHost[]> {
  return capacitiesOf(db, await hostsInUse(db), diskMbPer256Mb)
}

const hostsInUse = (db: Db) => db('hosts').select('hosts.*', reachable(db)).whereNull('forgotten_at').orderBy('id')

async function capacitiesOf(db: Db, hosts: HostRow[], diskMbPer256Mb: number): Promise<DatabaseHost[]> {
  const reserved = await listReservations(db)
  return hosts.map(host => ({
    id: host.id,
    draining: host.draining,
    reachable: host.reachable,
    memoryMb: host.memory_mb,
    diskMb: host.disk_mb,
    reservedMemoryMb: reserved.get(host.id)?.memoryMb ?? 0,
    reservedDiskMb: (reserved.get(host.id)?.diskUnits ?? 0) * diskMbPer256Mb,
    images: host.database_images,
  }))
}

export interface Reservations {
  apps: number
  databases: number
  memoryMb: number
  /** One for each 256 MB of the most memory that an application or database has had, and of its volume before a restore. */
  diskUnits: number
}

/** What is reserved on each host. Hosts without applications and databases are left out. */
export async function listReservations(db: Db): Promise<Map<string, Reservations>> {
  const { rows }: { rows: ({ host_id: string } & Reservations)[] } = await db.raw(
    `select host_id, sum(app)::integer as apps, sum(hosted)::integer as databases, sum(mb)::integer as "memoryMb",
            sum(disk)::integer as "diskUnits"
       from (${reservedOnHosts}) reserved group by host_id`,
  )
  return new Map(rows.map(({ host_id, ...sums }) => [host_id, sums]))
}
