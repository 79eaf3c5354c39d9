import { lostInCreation, lostWith, type Problem } from '../../policy/apps/app-problems.ts'
import { hostLeaseSeconds } from '../../policy/hosts/host-lease.ts'
import { removeApp } from '../apps/app-creation.ts'
import { announceApp } from '../apps/apps.ts'
import { revertAppState } from '../apps/transient-states.ts'
import { type Db, transaction } from '../database.ts'
import * as deployments from '../deploys/deployments.ts'
import * as operations from '../operations/operations.ts'
import { markSnapshotFailed } from '../snapshots/snapshots.ts'
import { closeHostLease } from './host-leases.ts'
import { findHost } from './hosts.ts'

/** A host that must not be forgotten; the message is for the operator. */
export class ForgetRefused extends Error {
  override name = 'ForgetRefused'
}

/** What is lost with a host: counts, and memory in MB. */
export interface HostLosses {
  apps: number
  /** Applications that have a good snapshot. */
  restorable: number
  memoryMb: number
  /** Waiting and running operations, which will be ended. */
  operations: number
}

export async function readHostLosses(db: Db, hostId: string): Promise<HostLosses> {
  const { rows } = await db.raw(
    `select count(*)::int as apps, coalesce(sum(a.ram_mb), 0)::int as "memoryMb",
            count(*) filter (where exists (
              select from snapshots s where s.target_type = 'app' and s.target_id = a.id and s.state = 'good'))::int as restorable,
            coalesce(sum((select count(*) from operations o where o.target_type = 'app' and o.target_id = a.id
                            and o.state in ('queued', 'running'))), 0)::int as operations
       from apps a where a.host_id = ?`,
    [hostId],
  )
  return rows[0]
}

/**
 * Marks a host as permanently lost, in the caller's transaction: its name can never be used again, and its memory counts in no plan.
 * The worker then ends the operations of its applications (`listUnsettledApps`). May be repeated. Throws `ForgetRefused` while the host
 * answers, or a process holds its lease.
 */
export async function forgetHost(trx: Db, hostId: string): Promise<void> {
  await trx('hosts').where({ id: hostId }).forUpdate().first('id')
  const host = await findHost(trx, hostId)
  if (!host) throw new ForgetRefused(`There is no host "${hostId}".`)
  if (host.reachable) throw new ForgetRefused(`The host ${hostId} answers. End its process first.`)
  if (!(await closeHostLease(trx, hostId)))
    throw new ForgetRefused(
      `A process still holds the name ${hostId}, or has ended within the last ${hostLeaseSeconds} s. End it, and try again then.`,
    )
  await trx('hosts').where({ id: hostId }).whereNull('forgotten_at').update({ forgotten_at: trx.fn.now() })
}

export interface UnsettledApp {
  id: string
  host_id: string
}

/** Applications of forgotten hosts that are not settled yet, in no order, except those whose creation is not confirmed yet. */
export async function listUnsettledApps(db: Db, { limit, hostId }: { limit: number; hostId?: string }) {
  const { rows }: { rows: UnsettledApp[] } = await db.raw(
    `select a.id, a.host_id from apps a join hosts h on h.id = a.host_id
      where h.forgotten_at is not null and a.lost_with is distinct from a.host_id and not a.accepting
        and (:hostId::text is null or h.id = :hostId) limit :limit`,
    { limit, hostId: hostId ?? null },
  )
  return rows
}

/** Ends the waiting and running operations of an application whose host was forgotten: later writes of its lane are refused. */
export async function endOperationsOfLostApp(db: Db, { id: appId, host_id: hostId }: UnsettledApp): Promise<number> {
  return transaction(db, async trx => {
    await trx('apps').where({ id: appId }).forUpdate().first('id')
    const unfinished: { id: string }[] = await trx('operations')
      .where({ target_type: 'app', target_id: appId })
      .whereIn('state', ['queued', 'running'])
      .forUpdate()
      .select('id')
    for (const { id } of unfinished) await endLostOperation(trx, id, hostId)
    return unfinished.length
  })
}

/** Ends one operation whose files are lost. */
export async function endLostOperation(trx: Db, operationId: string, hostId: string): Promise<void> {
  const operation = await operations.findOperation(trx, operationId)
  const message = operation?.kind === 'create' ? lostInCreation(hostId) : lostWith(hostId)
  const failure: Problem = { code: 'CLUSTER_UNAVAILABLE', message }
  const deployment = await deployments.findDeploymentByOperation(trx, operationId)
  if (deployment) await deployments.recordDeploymentStep(trx, deployment.id, { state: 'error', ...failure })
  await markSnapshotFailed(trx, operationId)
  const [operationRow] = await trx('operations')
    .where({ id: operationId })
    .whereIn('state', ['queued', 'running'])
    .update({ state: 'error', ...failure, finished_at: trx.fn.now() })
    .returning(['kind', 'target_id'])
  if (operationRow) await revertAppState(trx, operationRow)
  await operations.announceOperationEnd(trx, operationId)
}

/**
 * Call it once no operation of the application is left: it is shown as exited, and as lost with its host. One that was still being
 * created is deleted, as after every failed creation; only the reason stays.
 */
export async function settleLostApp(db: Db, { id, host_id: hostId }: UnsettledApp): Promise<void> {
  await transaction(db, async trx => {
    const app = await trx('apps').where({ id, host_id: hostId }).forUpdate().first('provisioned_at')
    if (!app) return
    if (app.provisioned_at === null) return removeApp(trx, id)
    await trx('apps').where({ id }).update({
      lost_with: hostId,
      undo_failure: null,
      undo_failed_at: null,
      undo_failed_by: null,
      status: 'exited',
      container_id: null,
      host_port: null,
      host_address: null,
      started_at: null,
      boot_id: null,
      exit_code: null,
      exit_oom: null,
      exit_at: null,
      last_stats: null,
    })
    await announceApp(trx, id)
  })
}

/** What an application has lost with a host. */
export interface AppLoss {
  /** The host that had its files. */
  hostId: string
  /** Whether its current host was forgotten. */
  nowhere: boolean
}

/** Undefined when the files of an application are on its host. */
export async function findAppLoss(db: Db, appId: string): Promise<AppLoss | undefined> {
  const row = await db('apps')
    .join('hosts', 'hosts.id', 'apps.host_id')
    .where('apps.id', appId)
    .first('apps.host_id', 'apps.lost_with', 'hosts.forgotten_at')
  const nowhere = Boolean(row?.forgotten_at)
  return row && (nowhere || row.lost_with !== null)
    ? { hostId: nowhere ? row.host_id : row.lost_with, nowhere }
    : undefined
}
