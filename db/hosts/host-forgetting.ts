import { lostInCreation, lostWith, type Problem } from '../../policy/apps/app-problems.ts'
import { databaseLostInCreation, databaseLostWith } from '../../policy/databases/database-problems.ts'
import { hostLeaseSeconds } from '../../policy/hosts/host-lease.ts'
import { removeApp } from '../apps/app-creation.ts'
import { announceApp } from '../apps/apps.ts'
import { type Db, transaction } from '../database.ts'
import { removeDatabase } from '../databases/database-creation.ts'
import * as deployments from '../deploys/deployments.ts'
import type { OperationTarget } from '../operations/operation-kinds.ts'
import * as operations from '../operations/operations.ts'
import { revertTargetState, targetTables } from '../operations/transient-states.ts'
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
  databases: number
  memoryMb: number
  /** Waiting and running operations, which will be ended. */
  operations: number
}

export async function readHostLosses(db: Db, hostId: string): Promise<HostLosses> {
  const { rows } = await db.raw(
    `with placed as (
       select 'app' as type, id, ram_mb from apps where host_id = :hostId
       union all
       select 'database', id, ram_mb from databases where host_id = :hostId
     )
     select count(*) filter (where p.type = 'app')::int as apps, count(*) filter (where p.type = 'database')::int as databases,
            coalesce(sum(p.ram_mb), 0)::int as "memoryMb",
            count(*) filter (where p.type = 'app' and exists (
              select from snapshots s where s.target_type = 'app' and s.target_id = p.id and s.state = 'good'))::int as restorable,
            coalesce(sum((select count(*) from operations o where o.target_type = p.type and o.target_id = p.id
                            and o.state in ('queued', 'running'))), 0)::int as operations
       from placed p`,
    { hostId },
  )
  return rows[0]
}

/**
 * Marks a host as permanently lost, in the caller's transaction: its name can never be used again, and its memory counts in no plan.
 * The worker then ends the operations of what it had (`listUnsettledTargets`). May be repeated. Throws `ForgetRefused` while the host
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

/** An application or database of a forgotten host. */
export interface UnsettledTarget extends OperationTarget {
  host_id: string
}

/** Applications and databases of forgotten hosts that are not settled yet, in no order; not those in `except`, nor those whose creation is not confirmed. */
export async function listUnsettledTargets(
  db: Db,
  { limit, hostId, except = [] }: { limit: number; hostId?: string; except?: readonly string[] },
): Promise<UnsettledTarget[]> {
  const of = (type: OperationTarget['type']) =>
    `select '${type}' as type, t.id, t.host_id from ${targetTables[type]} t join hosts h on h.id = t.host_id
      where h.forgotten_at is not null and t.lost_with is distinct from t.host_id and not t.accepting
        and (:hostId::text is null or h.id = :hostId) and t.id <> all(:except::text[])`
  const { rows } = await db.raw(`${of('app')} union all ${of('database')} limit :limit`, {
    limit,
    hostId: hostId ?? null,
    except,
  })
  return rows
}

/** Ends the waiting and running operations of what was on a forgotten host: later writes of its lane are refused. */
export async function endOperationsOfLost(db: Db, { type, id, host_id: hostId }: UnsettledTarget): Promise<number> {
  return transaction(db, async trx => {
    await trx(targetTables[type]).where({ id }).forUpdate().first('id')
    const unfinished: { id: string }[] = await trx('operations')
      .where({ target_type: type, target_id: id })
      .whereIn('state', ['queued', 'running'])
      .forUpdate()
      .select('id')
    for (const operation of unfinished) await endLostOperation(trx, operation.id, hostId)
    return unfinished.length
  })
}

/** Ends one operation whose files are lost. */
export async function endLostOperation(trx: Db, operationId: string, hostId: string): Promise<void> {
  const failure = lossOf(await operations.findOperation(trx, operationId), hostId)
  const deployment = await deployments.findDeploymentByOperation(trx, operationId)
  if (deployment) await deployments.recordDeploymentStep(trx, deployment.id, { state: 'error', ...failure })
  await markSnapshotFailed(trx, operationId)
  const [operationRow] = await trx('operations')
    .where({ id: operationId })
    .whereIn('state', ['queued', 'running'])
    .update({ state: 'error', ...failure, finished_at: trx.fn.now() })
    .returning(['kind', 'target_type', 'target_id'])
  if (operationRow) await revertTargetState(trx, operationRow)
  await operations.announceOperationEnd(trx, operationId)
}

function lossOf(operation: operations.OperationRow | undefined, hostId: string): Problem {
  const texts =
    operation?.target_type === 'database'
      ? { create: databaseLostInCreation, other: databaseLostWith }
      : { create: lostInCreation, other: lostWith }
  return { code: 'CLUSTER_UNAVAILABLE', message: texts[operation?.kind === 'create' ? 'create' : 'other'](hostId) }
}

/**
 * Call it once no operation of an application or database is left: it is shown as exited, and as lost with its host. One that was still
 * being created is deleted, as after every failed creation; only the reason stays.
 */
export async function settleLost(db: Db, { type, id, host_id: hostId }: UnsettledTarget): Promise<void> {
  await transaction(db, async trx => {
    const target = await trx(targetTables[type]).where({ id, host_id: hostId }).forUpdate().first('provisioned_at')
    if (!target) return
    if (target.provisioned_at === null) return (type === 'app' ? removeApp : removeDatabase)(trx, id)
    const own =
      type === 'app'
        ? {
            undo_failure: null,
            undo_failed_at: null,
            undo_failed_by: null,
            host_port: null,
            host_address: null,
            health: null,
          }
        : { restarts: 0, restart_at: null }
    await trx(targetTables[type])
      .where({ id })
      .update({
        ...own,
        lost_with: hostId,
        status: 'exited',
        container_id: null,
        started_at: null,
        boot_id: null,
        exit_code: null,
        exit_oom: null,
        exit_at: null,
        last_stats: null,
      })
    if (type === 'app') await announceApp(trx, id)
  })
}

/** What an application or database has lost with a host. */
export interface Loss {
  /** The host that had its files. */
  hostId: string
  /** Whether its current host was forgotten. */
  nowhere: boolean
}

/** Undefined when the files of an application, or database, are on its host. */
export async function findLoss(db: Db, { type, id }: OperationTarget): Promise<Loss | undefined> {
  const row = await db({ t: targetTables[type] })
    .join('hosts', 'hosts.id', 't.host_id')
    .where('t.id', id)
    .first('t.host_id', 't.lost_with', 'hosts.forgotten_at')
  const nowhere = Boolean(row?.forgotten_at)
  return row && (nowhere || row.lost_with !== null)
    ? { hostId: nowhere ? row.host_id : row.lost_with, nowhere }
    : undefined
}
