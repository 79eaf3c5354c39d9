import { type Plans, planOf } from '../../policy/accounts/plans.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { diskMbFor } from '../../policy/apps/sizes.ts'
import { CodedError } from '../../policy/errors.ts'
import { placeApp } from '../../policy/hosts/placement.ts'
import { newAppId } from '../../policy/ids.ts'
import { accountCaps } from '../../policy/request-caps.ts'
import { assertDisk, usedMemoryMb } from '../accounts/account-reservations.ts'
import type { UserRow } from '../accounts/accounts.ts'
import { type Db, sqlState, transaction } from '../database.ts'
import * as deployments from '../deploys/deployments.ts'
import { releaseArchivesOfApp } from '../deploys/history-retention.ts'
import { releaseUnused } from '../domains/domains.ts'
import * as hosts from '../hosts/hosts.ts'
import * as segments from '../objects/segments.ts'
import * as operations from '../operations/operations.ts'
import { endUnfinishedSnapshots } from '../snapshots/snapshots.ts'
import { configColumns } from './app-configuration.ts'
import { type AppRow, announceApp } from './apps.ts'

export interface AppCreation {
  ownerId: string
  /** The plan of the owner's locked row counts: an upload takes time, and plans change meanwhile. */
  plans: Plans
  config: AppConfigFile
  segmentId: string
  archiveSha256: string
  archiveBytes: number
  actor: string
  diskMbPer256Mb?: number
  /** Its dependencies are installed anew, whatever a cache holds. */
  noCache?: boolean
  /** True: it is invisible until `db/acceptance.ts` confirms it. Else it is visible with the commit. */
  accepting?: boolean
}

export interface CreatedApp {
  app: AppRow
  operationId: string
  deploymentId: string
}

/**
 * Reserves memory and a host and stores application, operation and deployment in one transaction: concurrent uploads can never pass
 * the plan. Throws INSUFFICIENT_MEMORY, SUBDOMAIN_TAKEN, CLUSTER_SELECTION_FAILED, CLUSTER_MAINTENANCE_TRY_LATER, or FAILED_UPLOAD_DATA
 * when the stored archive is missing.
 */
export async function createApp(db: Db, creation: AppCreation): Promise<CreatedApp> {
  try {
    return await transaction(db, trx => create(trx, creation))
  } catch (error) {
    throw sqlState(error) === '23505' ? new CodedError('SUBDOMAIN_TAKEN') : error
  }
}

async function create(trx: Db, creation: AppCreation): Promise<CreatedApp> {
  const { config, ownerId, segmentId } = creation
  await reserveMemory(trx, { ownerId, memoryMb: config.memoryMb, plans: creation.plans })
  const hostId = await chooseHost(trx, { ownerId, ...config }, creation.diskMbPer256Mb ?? 1024)
  if (config.subdomain && (await subdomainTaken(trx, config.subdomain))) throw new CodedError('SUBDOMAIN_TAKEN')
  const attached = await segments.attachSegment(trx, segmentId, {
    size: creation.archiveBytes,
    sha256: creation.archiveSha256,
  })
  if (!attached) throw new CodedError('FAILED_UPLOAD_DATA')
  const [app] = await trx('apps').insert(rowOf(creation, hostId)).returning('*')
  const { actor, accepting } = creation
  const operation = await operations.enqueueOperation(trx, {
    targetId: app.id,
    kind: 'create',
    ownerId,
    actor,
    accepting,
  })
  const deployment = await deployments.openDeployment(trx, {
    appId: app.id,
    operationId: operation.id,
    release: 1,
    source: 'upload',
    revision: creation.archiveSha256.slice(0, 40),
    segmentId,
    noCache: creation.noCache,
  })
  return { app, operationId: operation.id, deploymentId: deployment.id }
}

export interface MemoryRequest {
  ownerId: string
  /** MB */
  memoryMb: number
  plans: Plans
}

/** Locks the owner, and throws INSUFFICIENT_MEMORY unless the plan has enough memory left. */
export async function reserveMemory(trx: Db, { ownerId, plans, memoryMb }: MemoryRequest): Promise<void> {
  const owner: UserRow = await trx('users').where({ id: ownerId }).forUpdate().first()
  const { plan } = planOf(plans, owner, new Date())
  const freeMb = plan.memoryMb - (await usedMemoryMb(trx, ownerId))
  if (freeMb < accountCaps.minFreeMemoryMb || freeMb < memoryMb) {
    throw new CodedError(
      'INSUFFICIENT_MEMORY',
      `The plan has ${Math.max(0, freeMb)} MB left; the application asks for ${memoryMb} MB.`,
    )
  }
  await assertDisk(trx, { ownerId, planMb: plan.memoryMb, moreMb: memoryMb })
}

/**
 * A host with room, one with databases of the owner first unless the application is static. Other placements wait until the transaction
 * ends. Throws CLUSTER_SELECTION_FAILED or CLUSTER_MAINTENANCE_TRY_LATER.
 */
export async function chooseHost(
  trx: Db,
  { ownerId, language, memoryMb }: { ownerId: string; language: string; memoryMb: number },
  diskMbPer256Mb: number,
): Promise<string> {
  const capacities = await hosts.lockCapacities(trx, diskMbPer256Mb)
  const databases = language === 'static' ? null : await countDatabasesByHost(trx, ownerId)
  const candidates = capacities.map(host => ({ ...host, related: databases?.get(host.id) }))
  const placement = placeApp(candidates, { memoryMb, diskMb: diskMbFor(memoryMb, diskMbPer256Mb) })
  if (!placement.ok) throw new CodedError(placement.code)
  return placement.hostId
}

async function countDatabasesByHost(trx: Db, ownerId: string): Promise<Map<string, number>> {
  const rows = await trx('databases')
    .where({ owner_id: ownerId })
    .groupBy('host_id')
    .select('host_id', trx.raw('count(*)::integer as databases'))
  return new Map(rows.map(({ host_id, databases }) => [host_id, databases]))
}

async function subdomainTaken(trx: Db, subdomain: string): Promise<boolean> {
  return Boolean(await trx('apps').where({ subdomain }).first('id'))
}

function rowOf({ config, ownerId, accepting = false }: AppCreation, hostId: string) {
  return {
    id: newAppId(),
    owner_id: ownerId,
    ...configColumns(config),
    subdomain: config.subdomain,
    host_id: hostId,
    next_release: 2,
    accepting,
  }
}

/**
 * Deletes the row of an application and its references, and notifies processes that wait for it. Its good snapshots stay with the
 * account until they expire. The number of statements does not grow with its history. Missing is success.
 */
export async function removeApp(db: Db, appId: string): Promise<void> {
  await transaction(db, async trx => {
    const [deleted] = await trx('apps').where({ id: appId }).delete().returning('custom_domain')
    if (!deleted) return
    if (deleted.custom_domain) await releaseUnused(trx, deleted.custom_domain)
    await releaseArchivesOfApp(trx, appId)
    await endUnfinishedSnapshots(trx, appId)
    await deployments.endQueuedDeployments(trx, await operations.endQueuedOperations(trx, { type: 'app', id: appId }))
    await announceApp(trx, appId)
  })
}
