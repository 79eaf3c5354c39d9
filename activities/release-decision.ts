import * as apps from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import * as deployments from '../db/deployments.ts'
import { findHost } from '../db/hosts.ts'
import type { OperationRow } from '../db/operations.ts'
import { findSnapshot } from '../db/snapshots.ts'
import type { AppConfigFile } from '../policy/app-config.ts'
import { ownAddress } from '../policy/own-address.ts'
import { cpusFor, diskMbFor } from '../policy/sizes.ts'
import type { LaneOperation, Release, Serving, Source } from './release.ts'

export interface DecisionOptions {
  appsDomain: string
  diskMbPer256Mb: number
}

/** The version that serves now, as its row tells it, for an operation that replaces it; null when the application is gone. */
export async function decideServing(
  db: Db,
  options: DecisionOptions,
  appId: string,
  operationId: string,
): Promise<Serving | null> {
  const app = await apps.loadApp(db, appId)
  const host = app && (await findHost(db, app.host_id))
  if (!app || !host) return null
  // As it was published, also by an older version.
  const release = releaseOf(app, app.host_address ?? host.address, options, operationId)
  const { status, desired_state, host_port: hostPort } = app
  return { release, running: status === 'running', stopped: desired_state === 'stopped', hostPort }
}

/** Everything that the steps of an operation need, from the rows as they are now; null when the application is gone. */
export async function decide(db: Db, options: DecisionOptions, operation: OperationRow): Promise<LaneOperation | null> {
  const app = await apps.loadApp(db, operation.target_id)
  const host = app && (await findHost(db, app.host_id))
  if (!app || !host) return null
  const deployment = await deployments.findByOperation(db, operation.id)
  const brought = deployment && { deployment, source: await sourceOf(db, deployment) }
  const release = releaseOf(app, ownAddress(host.address, app.uid), options, operation.id, brought)
  // A restart that is claimed anew, by a lane after a lost one, finds its own mark.
  const wasRunning = app.status === 'running' || (app.status === 'restarting' && app.desired_state === 'running')
  return { id: operation.id, kind: operation.kind, wasDesired: app.desired_state, wasRunning, release }
}

function releaseOf(
  app: apps.AppRow,
  hostAddress: string,
  options: DecisionOptions,
  operationId: string,
  brought?: { deployment: deployments.DeploymentRow; source: Source | null },
): Release {
  const deployment = brought?.deployment
  return {
    ...(deployment?.config ? configured(deployment.config) : recorded(app)),
    appId: app.id,
    ownerId: app.owner_id,
    hostId: app.host_id,
    hostAddress,
    number: deployment?.release ?? app.release,
    uid: app.uid,
    diskMb: diskMbFor(app.ram_mb, options.diskMbPer256Mb),
    hostname: app.subdomain ? `${app.subdomain}.${options.appsDomain}` : null,
    deploymentId: deployment?.id ?? null,
    source: brought?.source ?? null,
    path: deployment?.path ?? '',
    restart: deployment?.restart ?? true,
    operationId,
  }
}

type Traits = Pick<Release, 'ramMb' | 'cpus' | 'language' | 'runtimeVersion' | 'main' | 'start'>

const recorded = (app: apps.AppRow): Traits => ({
  ramMb: app.ram_mb,
  cpus: app.cpu,
  language: app.language,
  runtimeVersion: app.runtime_version,
  main: app.main,
  start: app.start_command,
})

const configured = (config: AppConfigFile): Traits => ({
  ramMb: config.memoryMb,
  cpus: cpusFor(config.memoryMb),
  language: config.language,
  runtimeVersion: config.runtimeVersion,
  main: config.main,
  start: config.start,
})

async function sourceOf(db: Db, deployment: deployments.DeploymentRow): Promise<Source | null> {
  const { clone_url, branch, revision, segment_id, snapshot_id, filename } = deployment
  if (snapshot_id) {
    const snapshot = await findSnapshot(db, snapshot_id)
    return snapshot?.segment_id ? { kind: 'snapshot', segmentId: snapshot.segment_id } : null
  }
  if (clone_url && branch) return { kind: 'git', cloneUrl: clone_url, branch, commit: revision }
  if (!segment_id) return null
  return filename ? { kind: 'file', segmentId: segment_id, filename } : { kind: 'archive', segmentId: segment_id }
}
