import { includesDatabases, type Plan, type Plans, planOf } from '../../policy/accounts/plans.ts'
import { cpusFor, diskGrowth, diskMbFor } from '../../policy/apps/sizes.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import { type DatabaseHost, placeDatabase } from '../../policy/databases/placement.ts'
import { CodedError } from '../../policy/errors.ts'
import { hasRoom, type Need } from '../../policy/hosts/placement.ts'
import { newId } from '../../policy/ids.ts'
import { assertDisk, usedMemoryMb } from '../accounts/account-reservations.ts'
import type { UserRow } from '../accounts/accounts.ts'
import { type Db, transaction } from '../database.ts'
import { lockCapacities, lockPlacements } from '../hosts/hosts.ts'
import * as operations from '../operations/operations.ts'
import { endUnfinishedSnapshots } from '../snapshots/snapshots.ts'
import type { DatabaseRow } from './database-rows.ts'

export interface DatabaseCreation {
  ownerId: string
  /** The plan of the owner's locked row counts. */
  plans: Plans
  name: string
  engine: EngineName
  version: string
  ramMb: number
  actor: string
  /** Images that can serve it, the best first. */
  images: readonly string[]
  diskMbPer256Mb: number
  /** Ports of databases, both included; unique on each host. */
  ports: { from: number; to: number }
  /** True: it is invisible until `db/acceptance.ts` confirms it. Else it is visible with the commit. */
  accepting?: boolean
}

export interface CreatedDatabase {
  database: DatabaseRow
  operationId: string
}

/**
 * Reserves memory, a host and a port, and stores database and operation in one transaction: concurrent requests can never pass the
 * plan, or share a port. Throws UPGRADE_REQUIRED, INSUFFICIENT_MEMORY, CLUSTER_SELECTION_FAILED without room, or when the hosts report
 * that they will never have the image, and CLUSTER_MAINTENANCE_TRY_LATER without a host, or while it fetches the image.
 */
export async function createDatabase(db: Db, creation: DatabaseCreation): Promise<CreatedDatabase> {
  return transaction(db, trx => create(trx, creation))
}

async function create(trx: Db, creation: DatabaseCreation): Promise<CreatedDatabase> {
  const { ownerId, plans, ramMb, diskMbPer256Mb, images, ports } = creation
  const plan = await lockPlan(trx, plans, ownerId)
  if (!includesDatabases(plan)) throw new CodedError('UPGRADE_REQUIRED')
  await demandMemory(trx, plan, ownerId, ramMb)
  await assertDisk(trx, { ownerId, planMb: plan.memoryMb, moreMb: ramMb })
  const need = { memoryMb: ramMb, diskMb: diskMbFor(ramMb, diskMbPer256Mb) }
  const hosts = await lockCapacities(trx, diskMbPer256Mb)
  const apps = await countAppsByHost(trx, ownerId)
  const candidates = hosts.map(host => ({ ...host, related: apps.get(host.id) }))
  const { hostId, image, port } = await placeWithPort(trx, candidates, { need, images, ports })
  const { name, engine, version, actor, accepting = false } = creation
  const [database] = await trx('databases')
    .insert({
      ...{ id: newId(), owner_id: ownerId, name, engine, version, image, accepting },
      ...{ ram_mb: ramMb, reserved_mb: ramMb, cpu: cpusFor(ramMb), host_id: hostId, port },
    })
    .returning('*')
  const { id: operationId } = await operations.enqueueOperation(trx, {
    ...{ targetType: 'database', targetId: database.id, kind: 'create', ownerId, actor, accepting },
  })
  return { database, operationId }
}

/** The place of a database at the best host that has a port for it. Throws as `createDatabase`. */
async function placeWithPort(
  trx: Db,
  hosts: readonly DatabaseHost[],
  { need, images, ports }: Pick<DatabaseCreation, 'images' | 'ports'> & { need: Need },
): Promise<{ hostId: string; image: string; port: number }> {
  let withoutPort: string | undefined
  for (let left = hosts; ; left = left.filter(({ id }) => id !== withoutPort)) {
    const placement = placeDatabase(left, need, images)
    if (!placement.ok && withoutPort) throw new CodedError('CLUSTER_SELECTION_FAILED', noPort(withoutPort))
    if (!placement.ok) throw new CodedError(placement.code, placement.reason)
    const { hostId, image } = placement
    const port = await freePort(trx, hostId, ports)
    if (port !== undefined) return { hostId, image, port }
    withoutPort = hostId
  }
}

/** How many applications of an account that can use a database each host has. */
async function countAppsByHost(trx: Db, ownerId: string): Promise<Map<string, number>> {
  const rows = await trx('apps')
    .where({ owner_id: ownerId })
    .whereNot({ language: 'static' })
    .groupBy('host_id')
    .select('host_id', trx.raw('count(*)::integer as apps'))
  return new Map(rows.map(({ host_id, apps }) => [host_id, apps]))
}

/** The plan of an account, which stays locked: memory is reserved under this lock. */
async function lockPlan(trx: Db, plans: Plans, ownerId: string): Promise<Plan> {
  const owner: UserRow = await trx('users').where({ id: ownerId }).forUpdate().first()
  return planOf(plans, owner, new Date()).plan
}

/** Throws INSUFFICIENT_MEMORY unless the plan has this much more. */
async function demandMemory(trx: Db, plan: Plan, ownerId: string, moreMb: number): Promise<void> {
  const freeMb = plan.memoryMb - (await usedMemoryMb(trx, ownerId))
  if (freeMb < moreMb)
    throw new CodedError(
      'INSUFFICIENT_MEMORY',
      `The plan has ${Math.max(0, freeMb)} MB left; the database asks for ${moreMb} MB more.`,
    )
}

/**
 * The lowest port of the range that no database of the host has. One that a database had a few minutes ago comes last: its clients may
 * still try it. The caller holds the lock of placements, so that no other takes it meanwhile.
 */
async function freePort(
  trx: Db,
  hostId: string,
  { from, to }: { from: number; to: number },
): Promise<number | undefined> {
  const { rows } = await trx.raw(
    `select p.port from generate_series(:from::integer, :to::integer) p (port)
       left join databases d on d.host_id = :hostId and d.port = p.port
       left join (select distinct port from database_changes where host_id = :hostId) before on before.port = p.port
      where d.id is null
      order by before.port is not null, p.port limit 1`,
    { hostId, from, to },
  )
  return rows[0]?.port
}

/** Gives a database another port, because something else on its host has it; throws CLUSTER_SELECTION_FAILED when none is free. */
export async function takeAnotherPort(trx: Db, id: string, ports: DatabaseCreation['ports']): Promise<void> {
  const row = await trx('databases').where({ id }).first('host_id')
  if (!row) throw new CodedError('DATABASE_NOT_FOUND')
  await lockPlacements(trx)
  const port = await freePort(trx, row.host_id, ports)
  if (port === undefined) throw new CodedError('CLUSTER_SELECTION_FAILED', noPort(row.host_id))
  await trx('databases').where({ id }).update({ port })
}

const noPort = (hostId: string): string => `The host ${hostId} has no free port for another database.`

export interface MoreMemory {
  database: Pick<DatabaseRow, 'id'>
  /** Memory that it is to have, in MB. */
  ramMb: number
  plans: Plans
  diskMbPer256Mb: number
}

/**
 * Reserves the memory and disk that a database needs in addition to have `ramMb`; less needs none. Call it in the transaction that
 * stores the change of size, whose end releases what is not used (`db/operations/transient-states.ts`). Throws DATABASE_NOT_FOUND,
 * INSUFFICIENT_MEMORY when the plan or the host has too little left, and CLUSTER_UNAVAILABLE when the host was forgotten.
 */
export async function reserveMoreMemory(
  trx: Db,
  { database: { id }, ramMb, plans, diskMbPer256Mb }: MoreMemory,
): Promise<void> {
  const { owner_id: ownerId } = (await trx('databases').where({ id }).first('owner_id')) ?? {}
  if (!ownerId) throw new CodedError('DATABASE_NOT_FOUND')
  // Before the database, as in a creation: all transactions take these locks in one order.
  const plan = await lockPlan(trx, plans, ownerId)
  const before = await trx('databases').where({ id }).forUpdate().first('reserved_mb', 'disk_for_mb', 'host_id')
  if (!before) throw new CodedError('DATABASE_NOT_FOUND')
  const moreMb = ramMb - before.reserved_mb
  if (moreMb <= 0) return
  await demandMemory(trx, plan, ownerId, moreMb)
  const disk = diskGrowth(Math.max(before.disk_for_mb, before.reserved_mb), ramMb, diskMbPer256Mb)
  await assertDisk(trx, { ownerId, planMb: plan.memoryMb, moreMb: disk.moreMb })
  const host = (await lockCapacities(trx, diskMbPer256Mb)).find(candidate => candidate.id === before.host_id)
  if (!host) throw new CodedError('CLUSTER_UNAVAILABLE')
  if (!hasRoom(host, { memoryMb: moreMb, diskMb: disk.diskMb }))
    throw new CodedError('INSUFFICIENT_MEMORY', `The host of this database has no room for ${moreMb} MB more.`)
  await trx('databases').where({ id }).update({ reserved_mb: ramMb })
}

/**
 * Deletes the row of a database, and notifies processes that wait for it. Its good snapshots stay with the account until they expire.
 * Missing is success.
 */
export async function removeDatabase(db: Db, id: string): Promise<void> {
  await transaction(db, async trx => {
    if (!(await trx('databases').where({ id }).delete())) return
    await endUnfinishedSnapshots(trx, id, 'database')
    await operations.endQueuedOperations(trx, { type: 'database', id })
  })
}
