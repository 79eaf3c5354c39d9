import type { Knex } from 'knex'
import { snapshotSlotWait } from '../../policy/hosts/host-slots.ts'
import { type AppRow, loadApp } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { type DatabaseRow, loadDatabase } from '../databases/databases.ts'
import type { DeploymentRow, DeploymentState } from '../deploys/deployments.ts'
import { findHost, type HostRow } from '../hosts/hosts.ts'
import { listSnapshotSlotHolders, type SnapshotSlotHolder } from '../snapshots/snapshot-slots.ts'
import type { SnapshotRow } from '../snapshots/snapshots.ts'
import { type BuildSlotHolder, listBuildSlotHolders, waitingForSlot } from './build-slots.ts'
import { type TargetType, watchActor } from './operation-kinds.ts'
import type { OperationKind, OperationRow, OperationState } from './operations.ts'

/** An operation, and its deployment if it has one, as a line of a list. */
export interface OperationLine {
  id: string
  kind: OperationKind
  state: OperationState
  target_type: TargetType
  /** Of the application, or database. */
  app_id: string
  app_name: string | null
  host_id: string | null
  deployment_id: string | null
  deployment_state: DeploymentState | null
  source: 'git' | 'upload' | 'snapshot' | null
  revision: string | null
  branch: string | null
  waiting_for: string | null
  step: string | null
  actor: string
  code: string | null
  message: string | null
  cancel_requested_at: Date | null
  created_at: Date
  started_at: Date | null
  finished_at: Date | null
}

export interface OperationFilter {
  appId?: string
  databaseId?: string
  state?: OperationState
  limit: number
}

/** Newest first. */
export async function listOperations(
  db: Db,
  { appId, databaseId, state, limit }: OperationFilter,
): Promise<OperationLine[]> {
  return lines(db)
    .where(where => {
      if (appId) where.where({ 'operations.target_type': 'app', 'operations.target_id': appId })
      if (databaseId) where.where({ 'operations.target_type': 'database', 'operations.target_id': databaseId })
      if (state) where.where('operations.state', state)
    })
    .orderBy('operations.seq', 'desc')
    .limit(limit)
}

/** Ids of the operations that match an id, or the start of one, of an operation or a deployment. */
export async function resolveOperation(db: Db, start: string): Promise<string[]> {
  if (!/^[0-9a-f]{1,32}$/.test(start)) return []
  const { rows } = await db.raw(
    `select id from operations where id like :pattern
      union select operation_id from deployments where id like :pattern limit 10`,
    { pattern: `${start}%` },
  )
  return rows.map((row: { id: string }) => row.id)
}

interface OperationAct {
  actor: string
  act: 'retry' | 'cancel' | 'clear'
  at: Date
}

/** Everything known about an operation, and about what it waits for. */
export interface OperationStory {
  operation: OperationRow
  deployment: DeploymentRow | null
  /** The one that it creates, or restores. */
  snapshot: SnapshotRow | null
  events: { state: DeploymentState; at: Date; details: Record<string, unknown> }[]
  acts: OperationAct[]
  /** Operations of the same application that run or are queued before it, in order; empty when it has ended. */
  before: OperationLine[]
  /** Operations that retry this one. */
  retries: OperationLine[]
  /** The last other operation of the application that failed. */
  lastFailure: OperationLine | null
  /** Null when the application was deleted, and for a database. */
  app: AppRow | null
  /** Null when the database was deleted, and for an application. */
  database: DatabaseRow | null
  host: HostRow | null
  /** Failed automatic starts since it ran last, while its host keeps trying; else null. */
  hostTries: { count: number; last: Date } | null
  /** Holders of the build slots that it waits for; empty when it does not wait for one. */
  slotHolders: BuildSlotHolder[]
  /** Holders of the snapshot slots that it waits for; empty when it does not wait for one. */
  snapshotSlots: SnapshotSlotHolder[]
  logTail: string[]
}

/** Undefined when there is no such operation. */
export async function readOperationStory(db: Db, id: string, logLines: number): Promise<OperationStory | undefined> {
  const operation: OperationRow | undefined = await db('operations').where({ id }).first()
  if (!operation) return undefined
  const deployment: DeploymentRow | undefined = await db('deployments').where({ operation_id: id }).first()
  const snapshot: SnapshotRow | undefined = await db('snapshots')
    .where({ operation_id: id })
    .orWhere({ id: deployment?.snapshot_id ?? null })
    .first()
  const { target_type: type, target_id: targetId } = operation
  const app = type === 'app' ? await loadApp(db, targetId) : undefined
  const database = type === 'database' ? await loadDatabase(db, targetId) : undefined
  const placed = app ?? database
  const host = placed && (await findHost(db, placed.host_id))
  const ofApp = () =>
    lines(db).where({ 'operations.target_type': type, 'operations.target_id': targetId }).whereNot('operations.id', id)
  const waits = ['queued', 'running'].includes(operation.state)
  return {
    operation,
    deployment: deployment ?? null,
    snapshot: snapshot ?? null,
    events: deployment
      ? await db('deployment_events')
          .where({ deployment_id: deployment.id })
          .orderBy('id')
          .select('state', 'at', 'details')
      : [],
    acts: await db('operation_acts').where({ operation_id: id }).orderBy('id').select('actor', 'act', 'at'),
    before: waits ? await ofApp().andWhere(isBefore(operation)).orderByRaw(laneOrder) : [],
    retries: await ofApp().where('operations.retry_of', id).orderBy('operations.seq'),
    lastFailure: (await ofApp().where('operations.state', 'error').orderBy('operations.seq', 'desc').first()) ?? null,
    app: app ?? null,
    database: database ?? null,
    host: host ?? null,
    hostTries: app ? await hostTries(db, app) : null,
    snapshotSlots: operation.step?.startsWith(snapshotSlotWait)
      ? await listSnapshotSlotHolders(db, copiedAt(operation, placed))
      : [],
    slotHolders: app && operation.step === waitingForSlot ? await listBuildSlotHolders(db, app.host_id) : [],
    logTail: deployment ? await logTail(db, deployment.id, logLines) : [],
  }
}

/** The host at which an operation copies: a drill has chosen its own. */
const copiedAt = ({ kind, input }: OperationRow<string>, placed: { host_id: string } | undefined): string =>
  String((kind === 'drill' ? input.drillHost : placed?.host_id) ?? '')

/** A host restarts an application that should run and does not, until it is stopped. */
async function hostTries(db: Db, app: AppRow): Promise<OperationStory['hostTries']> {
  if (app.status !== 'running' || app.desired_state !== 'running') return null
  const { count, last } = await db('operations')
    .where({ target_type: 'app', target_id: app.id, kind: 'start', actor: watchActor, state: 'error' })
    .where('created_at', '>', app.started_at ?? new Date(0))
    .first(db.raw('count(*)::int as count, max(created_at) as last'))
  return last ? { count, last } : null
}

/** The order in which a lane takes operations: running ones, then deletions, then the oldest. */
const laneOrder = `operations.state = 'running' desc, operations.kind = 'delete' desc, operations.seq`

function isBefore(operation: OperationRow) {
  return (where: Knex.QueryBuilder) => {
    where.where('operations.state', 'running')
    if (operation.state !== 'queued') return
    where.orWhere(queued => {
      queued.where('operations.state', 'queued')
      if (operation.kind === 'delete')
        queued.where('operations.kind', 'delete').where('operations.seq', '<', operation.seq)
      else queued.where(first => first.where('operations.kind', 'delete').orWhere('operations.seq', '<', operation.seq))
    })
  }
}

function lines(db: Db) {
  return db('operations')
    .leftJoin('deployments', 'deployments.operation_id', 'operations.id')
    .leftJoin('apps', 'apps.id', 'operations.target_id')
    .leftJoin('databases', 'databases.id', 'operations.target_id')
    .select(
      'operations.id',
      'operations.kind',
      'operations.state',
      'operations.target_type',
      'operations.target_id as app_id',
      db.raw('coalesce(apps.name, databases.name) as app_name'),
      db.raw('coalesce(apps.host_id, databases.host_id) as host_id'),
      'deployments.id as deployment_id',
      'deployments.state as deployment_state',
      'deployments.source',
      'deployments.revision',
      'deployments.branch',
      'deployments.waiting_for',
      'operations.step',
      'operations.actor',
      db.raw('coalesce(deployments.code, operations.code) as code'),
      db.raw('coalesce(deployments.message, operations.message) as message'),
      'operations.cancel_requested_at',
      'operations.created_at',
      'operations.started_at',
      'operations.finished_at',
    )
}

async function logTail(db: Db, deploymentId: string, count: number): Promise<string[]> {
  const rows: { text: string }[] = await db('deployment_logs')
    .where({ deployment_id: deploymentId })
    .orderBy('seq', 'desc')
    .limit(count)
    .select('text')
  const text = rows
    .reverse()
    .map(row => row.text)
    .join('')
  return text.trimEnd().split('\n').slice(-count).filter(Boolean)
}
