import { newId } from '../policy/ids.ts'
import type { Db } from './database.ts'

export type DeploymentState = 'pending' | 'clone' | 'commit' | 'restarting' | 'success' | 'error'

export interface DeploymentRow {
  id: string
  app_id: string
  operation_id: string
  release: number
  source: 'git' | 'upload'
  revision: string
  segment_id: string | null
  path: string | null
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
}

/** Opens a deployment in state pending, with its first event. */
export async function open(db: Db, deployment: NewDeployment): Promise<{ id: string }> {
  const id = newId()
  await db('deployments').insert({
    id,
    app_id: deployment.appId,
    operation_id: deployment.operationId,
    release: deployment.release,
    source: deployment.source,
    revision: deployment.revision,
    segment_id: deployment.segmentId,
  })
  await db('deployment_events').insert({ deployment_id: id, state: 'pending' })
  return { id }
}

export async function findByOperation(db: Db, operationId: string): Promise<DeploymentRow | undefined> {
  return db('deployments').where({ operation_id: operationId }).first()
}

export interface DeploymentStep {
  state: Exclude<DeploymentState, 'pending'>
  code?: string
  message?: string
}

/** Writes a state and its event once; an ended deployment never changes again. */
export async function record(db: Db, id: string, step: DeploymentStep): Promise<void> {
  await db.transaction(async trx => {
    const changed = await trx('deployments')
      .where({ id })
      .whereNotIn('state', ['success', 'error'])
      .update({ state: step.state, code: step.code ?? null, message: step.message ?? null })
    if (!changed) return
    const details = JSON.stringify({ code: step.code, message: step.message })
    await trx('deployment_events')
      .insert({ deployment_id: id, state: step.state, details })
      .onConflict(['deployment_id', 'state'])
      .ignore()
  })
}

/** Adds a piece of output to a deployment's log. */
export async function appendLog(db: Db, deploymentId: string, text: string): Promise<void> {
  await db.raw(
    `insert into deployment_logs (deployment_id, seq, text)
     select ?, coalesce(max(seq), 0) + 1, ? from deployment_logs where deployment_id = ?`,
    [deploymentId, text, deploymentId],
  )
}

/** The whole log so far, oldest first. */
export async function readLog(db: Db, deploymentId: string): Promise<string> {
  const rows: { text: string }[] = await db('deployment_logs')
    .where({ deployment_id: deploymentId })
    .orderBy('seq')
    .select('text')
  return rows.map(row => row.text).join('')
}
