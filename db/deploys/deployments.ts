import { storable, storableJson } from '../../lib/storable-text.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { deploymentLogs } from '../../policy/apps/deployment-logs.ts'
import { shortWords } from '../../policy/hosts/installs.ts'
import { newId } from '../../policy/ids.ts'
import type { Db } from '../database.ts'

export type DeploymentState = 'pending' | 'clone' | 'commit' | 'restarting' | 'success' | 'error'

export interface DeploymentRow {
  id: string
  app_id: string
  operation_id: string
  release: number
  source: 'git' | 'upload' | 'snapshot'
  revision: string
  segment_id: string | null
  /** The snapshot that a restore takes its files from. */
  snapshot_id: string | null
  path: string | null
  owner_id: string | null
  clone_url: string | null
  branch: string | null
  superseded_by: string | null
  trigger: 'upload' | 'webhook' | 'app' | 'restore'
  filename: string | null
  restart: boolean
  /** Its dependencies are installed anew, whatever a cache holds. */
  no_cache: boolean
  /** Where its dependencies come from, in words; null for one of an older version, and until that is known. */
  dependencies: string | null
  config: AppConfigFile | null
  waiting_for: string | null
  finished_at: Date | null
  state: DeploymentState
  code: string | null
  message: string | null
  created_at: Date
}

export interface NewDeployment {
  appId: string
  operationId: string
  release: number
  source: 'git' | 'upload'
  /** 40 hex: the commit, or the start of the archive's sha256. */
  revision: string
  segmentId: string | null
  /** Its dependencies are installed anew, whatever a cache holds. */
  noCache?: boolean
}

/** Opens a deployment in state pending, with its first event. */
export async function openDeployment(db: Db, deployment: NewDeployment): Promise<{ id: string }> {
  const id = newId()
  await db('deployments').insert({
    id,
    app_id: deployment.appId,
    operation_id: deployment.operationId,
    release: deployment.release,
    source: deployment.source,
    revision: deployment.revision,
    segment_id: deployment.segmentId,
    no_cache: deployment.noCache ?? false,
  })
  await db('deployment_events').insert({ deployment_id: id, state: 'pending' })
  return { id }
}

/** Whether a deployment of this release of an application waits or runs. */
export async function isBeingDeployed(db: Db, appId: string, release: number): Promise<boolean> {
  const unfinished = db('deployments').where({ app_id: appId, release }).whereNotIn('state', ['success', 'error'])
  return Boolean(await unfinished.first('id'))
}

export async function findDeploymentByOperation(db: Db, operationId: string): Promise<DeploymentRow | undefined> {
  return db('deployments').where({ operation_id: operationId }).first()
}

export interface DeploymentStep {
  state: Exclude<DeploymentState, 'pending'>
  code?: string
  message?: string
  supersededBy?: string
  branch?: string
  files?: { added: string[]; removed: string[]; modified: string[] }
}

/** Stores a state and its event once, and announces it, in one statement; a finished deployment never changes again. */
export function recordDeploymentStep(db: Db, id: string, step: DeploymentStep): Promise<void> {
  return recordWhere(db, 'id = :of', id, step)
}

/** Ends the deployments of these operations, which were queued for a deleted application, in one statement. */
export function endQueuedDeployments(db: Db, operationIds: readonly string[]): Promise<void> {
  const step = { state: 'error', code: 'APP_NOT_FOUND', message: 'The application was deleted.' } as const
  return recordWhere(db, 'operation_id = any(:of::text[])', operationIds, step)
}

async function recordWhere(
  db: Db,
  condition: string,
  of: string | readonly string[],
  step: DeploymentStep,
): Promise<void> {
  const { state, code, message, supersededBy, files, branch } = step
  const details = storableJson({ branch, files, code, message, superseded_by: supersededBy })
  await db.raw(
    `with changed as (
       update deployments
          set state = :state, code = :code, message = :message, superseded_by = :supersededBy,
              waiting_for = null, finished_at = case when :state in ('success', 'error') then now() end
        where ${condition} and state not in ('success', 'error') returning id),
     noted as (
       insert into deployment_events (deployment_id, state, details)
       select id, :state, :details::jsonb from changed on conflict (deployment_id, state) do nothing)
     select pg_notify('deployments', id) from changed`,
    {
      of: of as string,
      state,
      code: code ?? null,
      message: message === undefined ? null : storable(message),
      supersededBy: supersededBy ?? null,
      details,
    },
  )
}

/** Records where the dependencies of a release come from, in words, and adds it to the deployment's log; once for the same words. */
export async function recordDependencies(db: Db, id: string, words: string): Promise<void> {
  const dependencies = storable(shortWords(words))
  await db.transaction(async trx => {
    const changed = await trx('deployments')
      .where({ id })
      .whereRaw('dependencies is distinct from ?', [dependencies])
      .update({ dependencies })
    if (changed > 0) await appendLog(trx, id, `Dependencies: ${dependencies}.\n`)
  })
}

/** Whether a deployment must not use the result of an earlier install step. */
export async function isCleanInstall(db: Db, id: string | null): Promise<boolean> {
  if (id === null) return false
  return (await db('deployments').where({ id }).first('no_cache'))?.no_cache === true
}

/** Stores the configuration file of a fetched commit, for the step that adopts it. */
export async function recordDeploymentConfig(db: Db, id: string, config: AppConfigFile): Promise<void> {
  await db('deployments')
    .where({ id })
    .update({ config: storableJson(config) })
}

/**
 * Appends a piece of output to a deployment's log and announces it, as long as the log stays within `maxBytes`. False when it has no room.
 */
export async function appendLog(
  db: Db,
  deploymentId: string,
  text: string,
  maxBytes: number = deploymentLogs.wholeBytes,
): Promise<boolean> {
  const { rowCount } = await db.raw(
    `with added as (
       insert into deployment_logs (deployment_id, seq, text)
       select :deploymentId, coalesce(max(seq), 0) + 1, :text from deployment_logs where deployment_id = :deploymentId
       having coalesce(sum(octet_length(text)), 0) + octet_length(:text) <= :maxBytes
       returning deployment_id)
     select pg_notify('deployments', deployment_id) from added`,
    { deploymentId, text: storable(text), maxBytes },
  )
  return rowCount === 1
}

/** The end of a deployment's log, up to 5000 characters. */
export async function readLogEnd(db: Db, deploymentId: string): Promise<string> {
  const rows: { text: string }[] = await db('deployment_logs')
    .where({ deployment_id: deploymentId })
    .orderBy('seq', 'desc')
    .limit(5)
    .select(db.raw('right(text, 1000) as text'))
  return rows
    .reverse()
    .map(({ text }) => text)
    .join('')
}

/** The whole log so far, oldest first; up to `deploymentLogs.wholeBytes` of a log from an older version, which had no limit. */
export async function readLog(db: Db, deploymentId: string): Promise<string> {
  const { rows }: { rows: { text: string }[] } = await db.raw(
    `select text from (
       select seq, text, sum(octet_length(text)) over (order by seq) as upto
         from deployment_logs where deployment_id = :deploymentId) pieces
      where upto <= :maxBytes order by seq`,
    { deploymentId, maxBytes: deploymentLogs.wholeBytes },
  )
  return rows.map(row => row.text).join('')
}
