import type { HostCapacity } from '../../policy/hosts/placement.ts'
import { unreachableAfterSeconds } from '../../policy/timeouts.ts'
import type { Db } from '../database.ts'

export interface HostRow {
  id: string
  address: string
  read_url: string | null
  memory_mb: number
  disk_mb: number
  protections: Record<string, string>
  draining: boolean
  last_seen_at: Date
  /** When an operator declared it permanently lost. */
  forgotten_at: Date | null
  reachable: boolean
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
    last_seen_at: db.fn.now(),
  }
  await db('hosts').insert(row).onConflict('id').merge()
}

/** Records that the host is alive. */
export async function recordHostSeen(db: Db, id: string): Promise<void> {
  await db('hosts').where({ id }).update({ last_seen_at: db.fn.now() })
}

/** Records the state of one protection of a host, for people. */
export async function recordProtection(db: Db, id: string, name: string, state: string): Promise<void> {
  const protections = db.raw('protections || jsonb_build_object(?::text, ?::text)', [name, state])
  await db('hosts').where({ id }).update({ protections })
}

/** Makes a host unreachable at once, when it shuts down. */
export async function recordHostLeft(db: Db, id: string): Promise<void> {
  await db('hosts')
    .where({ id })
    .update({ last_seen_at: new Date(0) })
}

export async function setDraining(db: Db, id: string, draining: boolean): Promise<boolean> {
  return (await db('hosts').where({ id }).update({ draining })) === 1
}

export async function findHost(db: Db, id: string): Promise<HostRow | undefined> {
  return db('hosts').select('hosts.*', reachable(db)).where({ id }).first()
}

export async function listHosts(db: Db): Promise<HostRow[]> {
  return db('hosts').select('hosts.*', reachable(db)).orderBy('id')
}

/** Every host that was not forgotten, with what its applications have reserved, locked until the transaction ends. Disk follows memory. */
export async function lockCapacities(db: Db, diskMbPer256Mb: number): Promise<HostCapacity[]> {
  const all = db('hosts').select('hosts.*', reachable(db)).whereNull('forgotten_at')
  const hosts: HostRow[] = await all.orderBy('id').forUpdate()
  const sums: { host_id: string; memory: string; units: string }[] = await db('apps')
    .select('host_id')
    .select(db.raw('sum(ram_mb) as memory, sum(ceil(ram_mb / 256.0)) as units'))
    .groupBy('host_id')
  return hosts.map(host => {
    const sum = sums.find(s => s.host_id === host.id)
    return {
      id: host.id,
      draining: host.draining,
      reachable: host.reachable,
      memoryMb: host.memory_mb,
      diskMb: host.disk_mb,
      reservedMemoryMb: Number(sum?.memory ?? 0),
      reservedDiskMb: Number(sum?.units ?? 0) * diskMbPer256Mb,
    }
  })
}

/**
 * What applications have reserved on each host: number of applications, MB of memory, and units of disk, one for each 256 MB of
 * memory of an application. Hosts without applications are left out.
 */
export async function listReservations(
  db: Db,
): Promise<Map<string, { apps: number; memoryMb: number; diskUnits: number }>> {
  const rows: { host_id: string; apps: string; memory: string; units: string }[] = await db('apps')
    .select('host_id')
    .select(db.raw('count(*) as apps, sum(ram_mb) as memory, sum(ceil(ram_mb / 256.0)) as units'))
    .groupBy('host_id')
  const sums = ({ apps, memory, units }: (typeof rows)[number]) => {
    return { apps: Number(apps), memoryMb: Number(memory), diskUnits: Number(units) }
  }
  return new Map(rows.map(row => [row.host_id, sums(row)]))
}
