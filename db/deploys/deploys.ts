import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { ApiError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import { appCaps } from '../../policy/request-caps.ts'
import type { Db } from '../database.ts'
import * as segments from '../objects/segments.ts'
import { statement } from '../statement.ts'
import { releaseOlderArchives } from './history-retention.ts'

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
  /** Directory below the application's folder that an upload is placed in; '' = the root. */
  path?: string
  /** Of an upload that is not an archive: it is stored at path/<filename>. */
  filename?: string
  /** False places the files and does not restart the program. */
  restart?: boolean
  /** The configuration file that an upload brought, parsed; the release adopts it. */
  config?: AppConfigFile | null
  /** True: its dependencies are installed anew, whatever a cache holds. */
  noCache?: boolean
  /** True: it waits for `db/acceptance.ts` to confirm it. Else it is in the queue with the commit. */
  accepting?: boolean
}

export interface QueuedDeploy {
  deploymentId: string
  operationId: string
  /** 1 = next; counts operations of this application that wait or run before it. */
  position: number
  /** Ids of the deployments that it superseded; empty while it waits for confirmation. */
  superseded: string[]
}

/**
 * Stores a deploy: operation, deployment and its first event, and ends the ones it supersedes (queued, of the same application and
 * branch). Call it inside the transaction of the request; undefined when the application is missing or being deleted, or the archive
 * was swept. Throws KEEP_CALM when too many wait already.
 */
export async function queueDeploy(trx: Db, request: DeployRequest): Promise<QueuedDeploy | undefined> {
  const { appId, archive } = request
  if ((await lock(trx, [appId])).length === 0) return undefined
  if (
    archive &&
    !(await segments.attachSegment(trx, archive.segmentId, { size: archive.bytes, sha256: archive.sha256 }))
  )
    return undefined
  const queued = await queueLockedDeploy(trx, request)
  if (archive) await releaseOlderArchives(trx, appId)
  return queued
}

/** Seconds before a deploy that found the queue full may be tried again: about as long as a short deploy takes. */
const fullRetrySeconds = 15

/** `queueDeploy` for a caller that holds the application's row (`lockForDeploy`) and stores no archive. */
export async function queueLockedDeploy(trx: Db, request: DeployRequest): Promise<QueuedDeploy> {
  const [deploymentId, operationId] = [newId(), newId()]
  const [counts] = await write(trx, [
    deploymentId,
    operationId,
    request.appId,
    request.ownerId,
    request.actor,
    request.trigger,
    request.trigger === 'upload' ? 'upload' : 'git',
    request.revision,
    request.archive?.segmentId ?? null,
    request.cloneUrl ?? null,
    request.branch ?? null,
    request.path ?? '',
    request.filename ?? null,
    request.restart ?? true,
    request.config ? JSON.stringify(request.config) : null,
    request.noCache ?? false,
  ])
  const { position, waiting } = counts!
  // Counted under the lock of the application's row, so no other deploy comes in between. Those that this one supersedes do not count.
  if (waiting >= appCaps.waitingDeploys)
    throw new ApiError('KEEP_CALM', `${waiting} deploys of this application wait already.`, fullRetrySeconds)
  const superseded = request.accepting ? [] : await settleDeploy(trx, operationId)
  return { deploymentId, operationId, position, superseded }
}

/**
 * Moves a stored deploy into the queue of its application, whose row the caller holds. It supersedes waiting deploys of the same
 * branch; or is superseded itself, by a newer one that was queued first. Resolves to the deployments that it superseded.
 */
export async function settleDeploy(trx: Db, operationId: string): Promise<string[]> {
  return (await settle(trx, [operationId]))[0]?.superseded ?? []
}

/**
 * Locks the application's row until the transaction ends; false when it is missing or being deleted. Deploys of one application are
 * stored one at a time, so that each sees the earlier ones.
 */
export async function lockForDeploy(trx: Db, appId: string): Promise<boolean> {
  return (await lock(trx, [appId])).length > 0
}

const lock = statement<never>(
  'deploys.lock',
  `select 1 from apps where id = $1 and desired_state <> 'deleted' for update`,
)

/**
 * One statement: a git provider would wait for every further round trip. It reads the same table twice: queued and accepting operations
 * have an index each, so that the time does not grow with the history.
 */
const write = statement<{ position: number; waiting: number }>(
  'deploys.write',
  `with app as (
     update apps set next_release = next_release + 1 where id = $3 returning next_release - 1 as release
   ), operation as (
     insert into operations (id, target_id, kind, owner_id, actor, state) select $2, $3, 'deploy', $4, $5, 'accepting' from app
   ), deployment as (
     insert into deployments (id, operation_id, app_id, owner_id, release, trigger, source, revision, segment_id, clone_url,
                              branch, path, filename, restart, config, no_cache)
     select $1, $2, $3, $4, release, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::jsonb, $16 from app
   ), event as (
     insert into deployment_events (deployment_id, state) select $1, 'pending' from app
   )
   select (count(*) filter (where o.state <> 'accepting') + 1)::int as position,
          (count(*) filter (where o.state <> 'running' and o.kind = 'deploy'))::int as waiting
     from (select id, kind, state from operations where target_id = $3 and target_type = 'app' and state in ('queued', 'running')
           union all
           select id, kind, state from operations where target_id = $3 and target_type = 'app' and state = 'accepting') o
     left join deployments d on d.operation_id = o.id
    where o.kind in ('create', 'deploy', 'restore')
      and not (o.state <> 'running' and o.kind = 'deploy' and d.branch is not distinct from $11 and $11 is not null)`,
)

const settle = statement<{ superseded: string[] }>(
  'deploys.settle',
  `with me as materialized (
     select d.id, d.app_id, d.branch, d.operation_id,
            (select n.id from deployments n join operations p on p.id = n.operation_id
              where n.app_id = d.app_id and n.release > d.release and n.branch = d.branch and p.state <> 'accepting'
              order by n.release desc limit 1) as newer
       from deployments d join operations o on o.id = d.operation_id
      where d.operation_id = $1 and o.state = 'accepting'
        for update of o
   ), queued as (
     update operations o set state = 'queued' from me where o.id = me.operation_id and me.newer is null
   ), overtaken as materialized (
     select operation_id as id, newer as by from me where newer is not null
     union all
     select o.id, me.id
       from me join operations o on o.target_id = me.app_id and o.target_type = 'app' and o.state = 'queued' and o.kind = 'deploy'
       join deployments d on d.operation_id = o.id and d.branch = me.branch
      where me.newer is null
   ), ended as (
     update operations o set state = 'cancelled', code = 'DEPLOY_SUPERSEDED', finished_at = now()
       from overtaken v where o.id = v.id and o.state in ('accepting', 'queued')
     returning o.id, v.by
   ), old as (
     update deployments d
        set state = 'error', code = 'DEPLOY_SUPERSEDED', message = 'A newer push was queued: deployment ' || ended.by || '.',
            superseded_by = ended.by, waiting_for = null, finished_at = now()
       from ended
      where d.operation_id = ended.id and d.state not in ('success', 'error')
     returning d.id, d.code, d.message, d.superseded_by
   ), old_event as (
     insert into deployment_events (deployment_id, state, details)
     select id, 'error', jsonb_build_object('code', code, 'message', message, 'superseded_by', superseded_by) from old
     on conflict (deployment_id, state) do nothing
   ), old_delivery as (
     update webhook_deliveries set verdict = 'superseded' where deployment_id in (select id from old)
   )
   select array(select old.id from old, me where old.id <> me.id) as superseded`,
)
