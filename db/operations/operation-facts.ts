import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import type { Language } from '../../policy/runtimes.ts'
import type { AppStatus } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import { statement } from '../statement.ts'
import type { OperationKind } from './operation-kinds.ts'

/** Columns of the application that decide about a release. */
export interface AppFacts {
  hostId: string
  hostAddress: string
  uid: number
  ramMb: number
  cpus: number
  language: Language
  runtimeVersion: string
  main: string | null
  start: string | null
  subdomain: string | null
  status: AppStatus
  /** Without regard to a waiting or running deletion. */
  desired: 'running' | 'stopped' | 'deleted'
  /** The release that serves; 0 = none yet. */
  release: number
  hostPort: number | null
}

/** Columns of the deployment that decide about a release. */
export interface DeploymentFacts {
  id: string
  release: number
  config: AppConfigFile | null
  path: string | null
  restart: boolean
  cloneUrl: string | null
  branch: string | null
  revision: string
  segmentId: string | null
  filename: string | null
  /** Its files come from a snapshot. */
  restores: boolean
  /** The archive of that snapshot; null when it is deleted. */
  snapshotSegmentId: string | null
}

/** An operation with everything that decides about its steps, from the current rows. */
export interface OperationFacts {
  id: string
  kind: OperationKind
  appId: string
  ownerId: string
  running: boolean
  claim: string | null
  claimStep: number
  /** Null when the application is deleted. */
  app: AppFacts | null
  /** Null for an operation without a release. */
  deployment: DeploymentFacts | null
}

/** One indexed statement: every step on a host starts with it. Undefined when there is no such operation. */
export async function readOperationFacts(db: Db, operationId: string): Promise<OperationFacts | undefined> {
  return (await facts(db, [operationId]))[0]
}

const facts = statement<OperationFacts>(
  'operation-facts.of',
  `select o.id, o.kind, o.target_id as "appId", coalesce(a.owner_id, o.owner_id) as "ownerId", o.state = 'running' as running,
          o.claim, o.claim_step as "claimStep",
          case when a.id is not null then json_build_object(
            'hostId', a.host_id, 'hostAddress', h.address, 'uid', a.uid, 'ramMb', a.ram_mb, 'cpus', a.cpu,
            'language', a.language, 'runtimeVersion', a.runtime_version, 'main', a.main, 'start', a.start_command,
            'subdomain', a.subdomain, 'status', a.status, 'desired', coalesce(a.desired_if_kept, a.desired_state), 'release', a.release,
            'hostPort', a.host_port) end as app,
          case when d.id is not null then json_build_object(
            'id', d.id, 'release', d.release, 'config', d.config, 'path', d.path, 'restart', d.restart,
            'cloneUrl', d.clone_url, 'branch', d.branch, 'revision', d.revision, 'segmentId', d.segment_id,
            'filename', d.filename, 'restores', d.source = 'snapshot', 'snapshotSegmentId', s.segment_id) end as deployment
     from operations o
     left join (apps a join hosts h on h.id = a.host_id) on a.id = o.target_id
     left join deployments d on d.operation_id = o.id and d.app_id = o.target_id
     left join snapshots s on s.id = d.snapshot_id
    where o.id = $1 and o.target_type = 'app'`,
)

/**
 * The operation of a step whose lane was started by a version that did not pass it: that of its deployment, else the one that this run
 * of the lane works on, or worked on last. Undefined when it has none.
 */
export async function findOperationOfRun(
  db: Db,
  { appId, deploymentId, run }: { appId: string; deploymentId: string | null; run: string },
): Promise<string | undefined> {
  return (await ofRun(db, [appId, run, deploymentId]))[0]?.id
}

const ofRun = statement<{ id: string }>(
  'operation-facts.of-run',
  `select id from operations o
    where target_type = 'app' and target_id = $1 and (claim = $2 or (claim is null and state = 'running'))
    order by exists (select from deployments d where d.id = $3 and d.operation_id = o.id) desc, state = 'running' desc, seq desc
    limit 1`,
)
