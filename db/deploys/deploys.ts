import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { CodedError } from '../../policy/errors.ts'
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
  /** 1 = next; counts operations of this application that wait, for their confirmation too, or run before it. */
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
  if (!(await lockForDeploy(trx, appId))) return undefined
  if (
    archive &&
    !(await segments.attachSegment(trx, archive.segmentId, { size: archive.bytes, sha256: archive.sha256 }))
  )
    return undefined
  const [deploymentId, operationId] = [newId(), newId()]
  const [stored] = await write(trx, [
    deploymentId,
    operationId,
    appId,
    request.ownerId,
    request.actor,
    request.trigger,
    request.trigger === 'upload' ? 'upload' : 'git',
    request.revision,
    archive?.segmentId ?? null,
    request.cloneUrl ?? null,
    request.branch ?? null,
    request.path ?? '',
    request.filename ?? null,
    request.restart ?? true,
    request.config ? JSON.stringify(request.config) : null,
    request.noCache ?? false,
    appCaps.waitingDeploys,
  ])
  const { place: position, waiting } = stored!
  if (position === null) throw tooManyWaiting(waiting)
  const superseded = request.accepting ? [] : (await settle(trx, [operationId]))[0]!.superseded
  if (archive) await releaseOlderArchives(trx, appId)
  return { deploymentId, operationId, position, superseded }
}

/** Seconds before a deploy that found the queue full may be tried again: about as long as a short deploy takes. */
const fullRetrySeconds = 15

/** The refusal of a deploy while the queue of its application is full. */
export const tooManyWaiting = (waiting: number): CodedError =>
  new CodedError('KEEP_CALM', `${waiting} deploys of this application wait already.`, fullRetrySeconds)

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

/** `place` null: nothing was stored, as too many wait. Both functions also store pushes (`db/git/pushes.ts`). */
const write = statement<{ place: number | null; waiting: number }>(
  'deploys.write',
  `select * from queue_deploy(${Array.from({ length: 17 }, (_, n) => `$${n + 1}`).join(', ')})`,
)

/** It supersedes waiting deploys of the same branch; or is superseded itself, by a newer one that was queued first. */
const settle = statement<{ superseded: string[] }>('deploys.settle', 'select settle_deploys(array[$1]) as superseded')
