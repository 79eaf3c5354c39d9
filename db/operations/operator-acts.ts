import { CodedError } from '../../policy/errors.ts'
import type { Db } from '../database.ts'
import * as deployments from '../deploys/deployments.ts'
import { type DeployRequest, queueDeploy } from '../deploys/deploys.ts'
import { queueRestore, type RestoreRequest } from '../snapshots/restores.ts'
import { markSnapshotFailed } from '../snapshots/snapshots.ts'
import * as operations from './operations.ts'
import { targetTables } from './transient-states.ts'
import { clearUndoFailure } from './undo-failures.ts'

/** An act that is not possible; the message is for the operator. */
export class ActRefused extends Error {
  override name = 'ActRefused'
}

export interface OperatorRequest {
  operationId: string
  /** `operator:<login name>` */
  actor: string
}

/** Kinds that run concurrently with commands of their application, and may be cancelled. */
export const cancellable: readonly (operations.OperationKind | operations.DatabaseOperationKind)[] = [
  'deploy',
  'restore',
  'snapshot',
  'drill',
]

/** What a customer reads of it: which operator it was is in the acts of the operation, and in the audit record. */
export const cancelledByOperator = 'Cancelled by an operator.'

/**
 * Cancels a deploy, restore, snapshot or drill, in one compare-and-set: a queued one ends immediately, a running one is ended by its lane, which
 * the caller must wake. Throws `ActRefused` when there is nothing to cancel.
 */
export async function cancelOperation(
  trx: Db,
  { operationId, actor }: OperatorRequest,
): Promise<'ended' | 'requested'> {
  const message = cancelledByOperator
  const { rows } = await trx.raw(
    `update operations
        set cancel_requested_at = coalesce(cancel_requested_at, now()),
            cancel_requested_by = coalesce(cancel_requested_by, :actor),
            code = case when state = 'queued' then 'DEPLOY_CANCELLED' end,
            message = case when state = 'queued' then :message end,
            finished_at = case when state = 'queued' then now() end,
            state = case when state = 'queued' then 'cancelled' else state end
      where id = :operationId and kind = any(:cancellable) and state in ('queued', 'running')
      returning state`,
    { operationId, actor, message, cancellable },
  )
  const state = rows[0]?.state as operations.OperationState | undefined
  if (!state) throw await cancelRefusal(trx, operationId)
  await trx('operation_acts').insert({ operation_id: operationId, actor, act: 'cancel' })
  if (state === 'running') return 'requested'
  const deployment = await deployments.findDeploymentByOperation(trx, operationId)
  if (deployment)
    await deployments.recordDeploymentStep(trx, deployment.id, { state: 'error', code: 'DEPLOY_CANCELLED', message })
  await markSnapshotFailed(trx, operationId)
  await operations.announceOperationEnd(trx, operationId)
  return 'ended'
}

async function cancelRefusal(db: Db, id: string): Promise<ActRefused> {
  const operation = await operations.findOperation(db, id)
  if (!operation) return new ActRefused(`There is no operation ${id}.`)
  if (operation.kind === 'create')
    return new ActRefused(
      operation.target_type === 'app'
        ? 'The creation of an application is cancelled by deleting the application.'
        : 'The creation of a database is cancelled by deleting the database.',
    )
  if (!cancellable.includes(operation.kind))
    return new ActRefused(`Only deploys, restores, snapshots and drills can be cancelled; this is a ${operation.kind}.`)
  if (operation.state === 'accepting')
    return new ActRefused(
      'It is not confirmed yet: within minutes it is queued, or undone as if it had never been requested.',
    )
  return new ActRefused(`It has already ended: ${operation.state}.`)
}

/**
 * Clears the mark of a failed undo from the application, once an operator has repaired it. Throws `ActRefused` when this operation has
 * left no mark, and while its undo is still retried.
 */
export async function clearUndoMark(trx: Db, { operationId, actor }: OperatorRequest): Promise<void> {
  const operation = await operations.findOperation(trx, operationId)
  if (operation?.state === 'running')
    throw new ActRefused('It is still being undone. To abandon that: berth ops cancel')
  if (!(await clearUndoFailure(trx, operationId)))
    throw new ActRefused('This operation has left no mark on its application, or a later deploy has removed it.')
  await trx('operation_acts').insert({ operation_id: operationId, actor, act: 'clear' })
}

/** Commands that can simply be queued again. */
const repeatable: readonly string[] = ['start', 'stop', 'restart']

/** How an operation that has failed is tried again; null when it cannot be. A deploy also brings the files of a creation. */
export function wayAgain(
  kind: string,
  deployment: Pick<deployments.DeploymentRow, 'trigger'> | null | undefined,
): 'command' | 'deploy' | 'restore' | null {
  if (repeatable.includes(kind)) return 'command'
  if (!deployment) return null
  return deployment.trigger === 'restore' ? 'restore' : 'deploy'
}

export interface Retry extends OperatorRequest {
  /** Even if a newer version was deployed since. */
  force: boolean
  /** With its dependencies installed anew, whatever a cache holds. */
  clean?: boolean
  /** How the application of a restore finds another host, if its own was forgotten; without it that is refused. */
  place?: RestoreRequest['place']
}

/**
 * Queues an operation again, with the same commit or archive: one that failed, or with `clean` the deploy of the commit that serves.
 * Throws `ActRefused` with the reason when that is impossible.
 */
export async function retryOperation(trx: Db, retry: Retry): Promise<{ operationId: string }> {
  const old = await trx('operations').where({ id: retry.operationId }).forUpdate().first()
  if (!old) throw new ActRefused(`There is no operation ${retry.operationId}.`)
  const hasFailed = !['accepting', 'queued', 'running', 'success'].includes(old.state)
  if (!hasFailed && !(retry.clean && (await broughtServingCommit(trx, old.id))))
    throw new ActRefused(
      `Only failed operations can be retried, and with --clean the running commit; this one is ${old.state}.`,
    )
  const pending = await trx('operations')
    .where({ retry_of: old.id })
    .whereIn('state', ['queued', 'running'])
    .first('id')
  if (pending) throw new ActRefused(`It is already being retried: operation ${pending.id}.`)
  const targets = trx(targetTables[old.target_type as operations.OperationTarget['type']]).where({ id: old.target_id })
  if (!(await targets.whereNot('desired_state', 'deleted').forUpdate().first('id')))
    throw new ActRefused(
      old.target_type === 'app' ? 'Its application was deleted. Upload it again.' : 'Its database was deleted.',
    )
  const deployment = await deployments.findDeploymentByOperation(trx, old.id)
  const way = wayAgain(old.kind, deployment)
  if (!way) throw new ActRefused(`A ${old.kind} cannot be retried.`)
  if (retry.clean && way !== 'deploy') throw new ActRefused(`A ${old.kind} installs nothing; retry it without --clean.`)
  const operationId = await queueAgain[way](trx, old, retry, deployment as deployments.DeploymentRow)
  await trx('operations').where({ id: operationId }).update({ retry_of: old.id })
  await trx('operation_acts').insert({ operation_id: old.id, actor: retry.actor, act: 'retry' })
  return { operationId }
}

type QueueAgain = (
  trx: Db,
  old: operations.OperationRow,
  retry: Retry,
  deployment: deployments.DeploymentRow,
) => Promise<string>

const queueAgain: Readonly<Record<NonNullable<ReturnType<typeof wayAgain>>, QueueAgain>> = {
  command: repeat,
  deploy: deployAgain,
  restore: restoreAgain,
}

/** Whether a deploy brought the commit that its application runs now. */
async function broughtServingCommit(db: Db, operationId: string): Promise<boolean> {
  const deployment = await deployments.findDeploymentByOperation(db, operationId)
  if (deployment?.source !== 'git' || deployment.state !== 'success') return false
  const { app_id: id, release } = deployment
  return (await db('apps').where({ id, release }).first('id')) !== undefined
}

async function repeat(trx: Db, old: operations.OperationRow, { actor }: Retry): Promise<string> {
  const { target_type: targetType, target_id: targetId, owner_id: ownerId, kind } = old
  const again = { targetType, targetId, kind, ownerId, actor } as operations.NewOperation
  return (await operations.enqueueOperation(trx, again)).id
}

async function deployAgain(
  trx: Db,
  old: operations.OperationRow,
  { actor, force, clean }: Retry,
  deployment: deployments.DeploymentRow,
): Promise<string> {
  const trigger = deployment.trigger as DeployRequest['trigger'] // that of a restore is tried again by `restoreAgain`
  const newer = force ? undefined : await newerThan(trx, deployment)
  if (newer)
    throw new ActRefused(`Deployment ${newer.id} is newer (${newer.state}). To go back to this one, add --force.`)
  const { revision, clone_url: cloneUrl, branch, filename, restart, path, config } = deployment
  const archive = deployment.source === 'upload' ? await archiveOf(trx, deployment) : undefined
  const queued = await queueDeploy(trx, {
    ...{ appId: old.target_id, ownerId: old.owner_id, actor, trigger, revision, restart, config, archive },
    cloneUrl: cloneUrl ?? undefined,
    branch: branch ?? undefined,
    path: path ?? '',
    filename: filename ?? undefined,
    noCache: clean || deployment.no_cache,
  })
  if (!queued) throw new ActRefused(archiveGone)
  return queued.operationId
}

async function restoreAgain(
  trx: Db,
  _: operations.OperationRow,
  { actor, place }: Retry,
  { app_id: appId, snapshot_id }: deployments.DeploymentRow,
): Promise<string> {
  const snapshot = snapshot_id && (await trx('snapshots').where({ id: snapshot_id }).first())
  if (!snapshot) throw new ActRefused('Its snapshot is no longer stored.')
  const restore = { appId, actor, name: snapshot.name, version: snapshot.id, ...(place && { place }) }
  const { id } = await queueRestore(trx, restore).catch(error => {
    throw error instanceof CodedError ? new ActRefused(error.message) : error
  })
  return id
}

/** A newer deployment of the application that waits, runs or serves: a retry would go back to an older version. */
function newerThan(trx: Db, { app_id, release }: deployments.DeploymentRow) {
  const newer = trx('deployments').where({ app_id }).where('release', '>', release).whereNot('state', 'error')
  return newer.orderBy('release', 'desc').first('id', 'state')
}

const archiveGone = 'Its archive is no longer stored. Upload it again.'

async function archiveOf(trx: Db, { segment_id }: deployments.DeploymentRow) {
  const stored = segment_id && (await trx('segments').where({ id: segment_id, state: 'stored' }).forUpdate().first())
  if (!stored) throw new ActRefused(archiveGone)
  return { segmentId: stored.id, bytes: Number(stored.size), sha256: stored.sha256 }
}
