import type { Machine } from '../../lib/machine.ts'
import { type KnownBoot, type KnownEngine, machineBootOf } from '../../policy/hosts/host-boot.ts'
import { type Db, transaction } from '../database.ts'
import { statement } from '../statement.ts'

/**
 * Records the boot that a host is in, and what its engine has reported, if anything yet. The same commit clears ports that were
 * recorded in another boot, and notifies the route keeper.
 */
export async function recordBoot(
  db: Db,
  hostId: string,
  bootId: string,
  engine: KnownEngine | null = null,
): Promise<void> {
  await transaction(db, async trx => {
    await trx.raw(
      `update hosts set boot_id = ?, routed_boot_id = case when boot_id = ? then routed_boot_id end where id = ?`,
      [bootId, bootId, hostId],
    )
    await recordEngine(trx, hostId, engine)
    await trx('apps')
      .where({ host_id: hostId })
      .whereNotNull('host_port')
      .whereRaw('boot_id is distinct from ?', [bootId])
      .update({ host_port: null })
    await trx.raw(`select pg_notify('boots', ?)`, [hostId])
  })
}

/** Records what a host's engine reports in the current boot. */
export async function recordEngine(db: Db, hostId: string, engine: KnownEngine | null): Promise<void> {
  const columns = { engine_began: engine?.began ?? null, engine_live_restore: engine?.liveRestore ?? null }
  await db('hosts').where({ id: hostId }).update(columns)
}

/** The boot that a host has recorded last. */
export async function readHostBoot(db: Db, hostId: string): Promise<KnownBoot> {
  const row = await db('hosts').where({ id: hostId }).first('boot_id', 'engine_began', 'engine_live_restore')
  const began = row?.engine_began ?? null
  return { bootId: row?.boot_id ?? null, engine: began && { began, liveRestore: row.engine_live_restore } }
}

export interface Boot {
  id: string
  boot_id: string
}

/** Hosts whose current boot is not yet reflected in the proxy's routes. */
export async function listUnroutedBoots(db: Db): Promise<Boot[]> {
  return db('hosts').whereNotNull('boot_id').whereRaw('boot_id is distinct from routed_boot_id').select('id', 'boot_id')
}

/** A digest of the address and the boot of every host: when it changes, the routes of all applications of a host may have changed. */
export async function readHostsDigest(db: Db): Promise<string> {
  const { rows } = await db.raw(
    `select md5(coalesce(string_agg(concat_ws(' ', id, address, boot_id), ',' order by id), '')) as digest from hosts`,
  )
  return rows[0].digest
}

/** Records that the proxy's routes were updated from the rows after these boots started. */
export async function recordRoutedBoots(db: Db, boots: readonly Boot[]): Promise<void> {
  for (const { id, boot_id } of boots) await db('hosts').where({ id, boot_id }).update({ routed_boot_id: boot_id })
}

/** The hosts of these applications; null when one of them is deleted, as it may have been on any host. */
export async function findHostsOfApps(db: Db, appIds: readonly string[]): Promise<Set<string> | null> {
  const rows: { id: string; host_id: string }[] = await db('apps').whereIn('id', appIds).select('id', 'host_id')
  return rows.length < new Set(appIds).size ? null : new Set(rows.map(row => row.host_id))
}

/** Whether no route leads to a port that was assigned before this boot. */
export async function isBootRouted(db: Db, hostId: string, bootId: string): Promise<boolean> {
  return Boolean(await db('hosts').where({ id: hostId, boot_id: bootId, routed_boot_id: bootId }).first('id'))
}

export interface HostBoot {
  address: string
  /** The boot that the host has recorded last; null = none yet. */
  boot_id: string | null
}

/** The boot that an application's host has recorded last. */
export async function findBootOfApp(db: Db, appId: string): Promise<HostBoot | undefined> {
  return (await bootOf(db, [appId]))[0]
}

const bootOf = statement<HostBoot>(
  'host-boots.of-app',
  `select h.address, h.boot_id from apps a join hosts h on h.id = a.host_id where a.id = $1`,
)

/**
 * Whether a host has not recorded its current boot yet: `machine` is the host's, and has rebooted since. Ports that were recorded
 * before may belong to any container.
 */
export function isBootOutdated(host: HostBoot, machine: Machine): boolean {
  if (host.boot_id === null || machine.bootId === null) return false
  if (machineBootOf(host.boot_id) === machine.bootId) return false
  return machine.owns(host.address)
}

/** Whether an application was last seen running in an earlier boot of its host. */
export async function ranInEarlierBoot(db: Db, appId: string): Promise<boolean> {
  const row = await db('apps')
    .join('hosts', 'hosts.id', 'apps.host_id')
    .where('apps.id', appId)
    .whereNotNull('apps.boot_id')
    .whereRaw('apps.boot_id <> hosts.boot_id')
    .first('apps.id')
  return Boolean(row)
}
