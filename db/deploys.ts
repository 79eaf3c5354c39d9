import type { AppConfigFile } from '../policy/app-config.ts'
import type { Db } from './database.ts'
import * as deployments from './deployments.ts'
import * as operations from './operations.ts'
import * as segments from './segments.ts'

export interface DeployRequest {
  appId: string
  ownerId: string
  actor: string
  trigger: 'upload' | 'webhook' | 'app'
  /** 40 hex: the commit, or the start of the archive's sha256. */
  revision: string
  /** git */
  cloneUrl?: string
  branch?: string
  /** upload */
  archive?: { segmentId: string; bytes: number; sha256: string }
  /** Directory below the application's folder that an upload lands in; '' = the root. */
  path?: string
  /** Of an upload that is no archive: it lands at path/<filename>. */
  filename?: string
  /** False places the files and leaves the program running as it is. */
  restart?: boolean
  /** The configuration file that an upload brought, parsed; the release adopts it. */
  config?: AppConfigFile | null
}

export interface QueuedDeploy {
  deploymentId: string
  operationId: string
  /** 1 = next; counts what waits or runs before it on this application. */
  position: number
  superseded: string[]
}

/**
 * Writes a deploy down: operation, deployment and its first event, and ends the ones it supersedes (queued, of the same
 * application and branch). To be called inside the transaction of whatever asked for it; undefined when the application is
 * gone or being deleted.
 */
export async function queueDeploy(trx: Db, request: DeployRequest): Promise<QueuedDeploy | undefined> {
  const app = await trx('apps').where({ id: request.appId }).whereNot('desired_state', 'deleted').forUpdate().first()
  if (!app) return undefined
  if (request.archive) {
    const { segmentId, bytes, sha256 } = request.archive
    if (!(await segments.attach(trx, segmentId, { size: bytes, sha256 }))) return undefined
  }
  await trx('apps')
    .where({ id: app.id })
    .update({ next_release: app.next_release + 1 })
  const { appId, ownerId, actor } = request
  const operation = await operations.enqueue(trx, { targetId: appId, kind: 'deploy', ownerId, actor })
  const deployment = await deployments.open(trx, {
    appId,
    operationId: operation.id,
    release: app.next_release,
    source: request.trigger === 'upload' ? 'upload' : 'git',
    revision: request.revision,
    segmentId: request.archive?.segmentId ?? null,
  })
  await trx('deployments')
    .where({ id: deployment.id })
    .update({
      owner_id: ownerId,
      trigger: request.trigger,
      clone_url: request.cloneUrl ?? null,
      branch: request.branch ?? null,
      path: request.path ?? '',
      filename: request.filename ?? null,
      restart: request.restart ?? true,
      config: request.config ? JSON.stringify(request.config) : null,
    })
  const superseded = request.branch ? await supersede(trx, appId, request.branch, deployment.id) : []
  const position = await waitingBefore(trx, appId, operation.id)
  return { deploymentId: deployment.id, operationId: operation.id, position, superseded }
}

/** Ends every queued deploy of this application and branch in favour of a newer one; what runs already runs on. */
async function supersede(trx: Db, appId: string, branch: string, newer: string): Promise<string[]> {
  const { rows } = await trx.raw(
    `update operations set state = 'cancelled', code = 'DEPLOY_SUPERSEDED', finished_at = now()
      where state = 'queued' and kind = 'deploy' and target_id = :appId
        and id in (select operation_id from deployments where app_id = :appId and branch = :branch and id <> :newer)
      returning id`,
    { appId, branch, newer },
  )
  const ended: string[] = []
  for (const { id } of rows) {
    const old = await deployments.findByOperation(trx, id)
    if (!old) continue
    const message = `A newer push was queued: deployment ${newer}.`
    await deployments.record(trx, old.id, { state: 'error', code: 'DEPLOY_SUPERSEDED', message, supersededBy: newer })
    await trx('webhook_deliveries').where({ deployment_id: old.id }).update({ verdict: 'superseded' })
    ended.push(old.id)
  }
  return ended
}

async function waitingBefore(db: Db, appId: string, operationId: string): Promise<number> {
  const row = await db('operations')
    .where({ target_id: appId })
    .whereIn('kind', ['create', 'deploy'])
    .whereIn('state', ['queued', 'running'])
    .whereRaw('seq <= (select seq from operations where id = ?)', [operationId])
    .count({ count: '*' })
    .first()
  return Number(row?.count ?? 1)
}
