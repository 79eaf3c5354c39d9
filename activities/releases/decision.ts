import type { Db } from '../../db/database.ts'
import {
  type AppFacts,
  type DeploymentFacts,
  type OperationFacts,
  readOperationFacts,
} from '../../db/operations/operation-facts.ts'
import type { AppConfigFile } from '../../policy/apps/app-config.ts'
import { ownAddress } from '../../policy/apps/published-address.ts'
import { cpusFor, diskMbFor } from '../../policy/apps/sizes.ts'
import type { LaneOperation, Release, Serving, Source } from './release.ts'

export interface DecisionOptions {
  appsDomain: string
  diskMbPer256Mb: number
}

/** Everything that the steps of an operation need, from the current rows; null when the application is deleted. */
export async function decide(db: Db, options: DecisionOptions, operationId: string): Promise<LaneOperation | null> {
  const facts = await readOperationFacts(db, operationId)
  const release = facts && (releaseBrought(facts, options) ?? releaseServing(facts, options))
  if (!facts?.app || !release) return null
  const { status, desired } = facts.app
  // A restart that a lane claims again, after an earlier lane was lost, finds the status that it set itself.
  const wasRunning = status === 'running' || (status === 'restarting' && desired === 'running')
  return { id: facts.id, kind: facts.kind, wasDesired: desired, wasRunning, release }
}

/** The version that serves now, for an operation that replaces it; null when the application is deleted. */
export async function decideServing(db: Db, options: DecisionOptions, operationId: string): Promise<Serving | null> {
  const facts = await readOperationFacts(db, operationId)
  const release = facts && releaseServing(facts, options)
  if (!facts?.app || !release) return null
  const { status, desired, hostPort } = facts.app
  return { release, running: status === 'running', stopped: desired === 'stopped', hostPort }
}

/** The release that an operation brings; null when it brings none, or its application is deleted. */
export function releaseBrought(facts: OperationFacts, options: DecisionOptions): Release | null {
  const { app, deployment } = facts
  if (!app || !deployment) return null
  return {
    ...releaseOf(facts, app, options),
    ...(deployment.config && traitsOf(deployment.config)),
    number: deployment.release,
    deploymentId: deployment.id,
    source: sourceOf(deployment),
    path: deployment.path ?? '',
    restart: deployment.restart,
  }
}

/** The serving release of an operation's application; null when the application is deleted. */
export function releaseServing(facts: OperationFacts, options: DecisionOptions): Release | null {
  return facts.app && releaseOf(facts, facts.app, options)
}

function releaseOf({ id, appId, ownerId }: OperationFacts, app: AppFacts, options: DecisionOptions): Release {
  return {
    appId,
    ownerId,
    hostId: app.hostId,
    hostAddress: ownAddress(app.hostAddress, app.uid),
    number: app.release,
    uid: app.uid,
    ramMb: app.ramMb,
    reservedMb: app.ramMb,
    cpus: app.cpus,
    diskMb: diskMbFor(app.ramMb, options.diskMbPer256Mb),
    language: app.language,
    runtimeVersion: app.runtimeVersion,
    main: app.main,
    start: app.start,
    hostname: app.subdomain ? `${app.subdomain}.${options.appsDomain}` : null,
    deploymentId: null,
    source: null,
    path: '',
    restart: true,
    operationId: id,
  }
}

type Traits = Pick<Release, 'ramMb' | 'cpus' | 'language' | 'runtimeVersion' | 'main' | 'start'>

const traitsOf = (config: AppConfigFile): Traits => ({
  ramMb: config.memoryMb,
  cpus: cpusFor(config.memoryMb),
  language: config.language,
  runtimeVersion: config.runtimeVersion,
  main: config.main,
  start: config.start,
})

function sourceOf(deployment: DeploymentFacts): Source | null {
  const { cloneUrl, branch, revision, segmentId, filename, restores, snapshotSegmentId } = deployment
  if (restores) return { kind: 'snapshot', segmentId: snapshotSegmentId }
  if (cloneUrl && branch) return { kind: 'git', cloneUrl, branch, commit: revision }
  if (!segmentId) return null
  return filename ? { kind: 'file', segmentId, filename } : { kind: 'archive', segmentId }
}
