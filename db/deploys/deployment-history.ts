import { deploymentLogs } from '../../policy/apps/deployment-logs.ts'
import type { Db } from '../database.ts'
import type { DeploymentRow } from './deployments.ts'

interface DeploymentEvent {
  state: DeploymentRow['state']
  /** Milliseconds. */
  at: number
  details: {
    branch?: string
    files?: { added: string[]; removed: string[]; modified: string[] }
    code?: string
    message?: string
    superseded_by?: string
  }
}

/** A deployment with its events, oldest first. */
export interface DeploymentStory extends DeploymentRow {
  source: 'git' | 'upload'
  events: DeploymentEvent[]
  /** While it waits: 1 = next; counts operations of its application that wait or run before it. */
  position: number | null
}

export interface HistoryPage {
  limit: number
  /** Id of the last deployment of the previous page; an unknown id gives an empty page. */
  after?: string
}

/** An application's deployments, newest first. Restores are not among them: they have their own state. */
export async function listDeployments(
  db: Db,
  appId: string,
  { limit, after }: HistoryPage,
): Promise<DeploymentStory[]> {
  const { rows } = await db.raw(
    `select d.*, e.events, case when o.state = 'queued' then (
              select count(*)::int from operations b
               where b.target_type = 'app' and b.target_id = d.app_id and b.state in ('queued', 'running')
                 and b.kind in ('create', 'deploy', 'restore') and b.seq <= o.seq) end as position
       from deployments d
       join operations o on o.id = d.operation_id
       cross join lateral (
         select coalesce(json_agg(json_build_object('state', state, 'details', details,
                  'at', floor(extract(epoch from at) * 1000)::bigint) order by id), '[]') as events
           from deployment_events where deployment_id = d.id) e
      where d.app_id = :appId and d.source <> 'snapshot' and o.state <> 'accepting'
        and (:after::text is null
             or (d.created_at, d.id) < (select created_at, id from deployments where id = :after and app_id = :appId))
      order by d.created_at desc, d.id desc limit :limit`,
    { appId, limit, after: after ?? null },
  )
  return rows
}

/** Undefined when the application has no such deployment. */
export async function readDeploymentState(
  db: Db,
  appId: string,
  id: string,
): Promise<DeploymentRow['state'] | undefined> {
  const row = await db('deployments').where({ id, app_id: appId }).first('state')
  return row?.state
}

export interface LogPiece {
  seq: number
  text: string
}

/** The next pieces of a deployment's log after `seq`, oldest first: up to `bytes` bytes, or one longer piece. */
export async function readLogAfter(db: Db, deploymentId: string, seq: number, bytes: number): Promise<LogPiece[]> {
  const { rows } = await db.raw(
    `select seq, text from (
       select seq, text, sum(octet_length(text)) over (order by seq) - octet_length(text) as before from (
         select seq, text from deployment_logs
          where deployment_id = :deploymentId and seq > :seq
            and octet_length(text) <= :maxBytes -- an older version had no limit
          order by seq limit 1000
       ) next
     ) measured where before < :bytes order by seq`,
    { deploymentId, seq, bytes, maxBytes: deploymentLogs.wholeBytes },
  )
  return rows
}
