import type Koa from 'koa'
import type { Logger } from 'pino'
import {
  type ContainerHost,
  type ContainerState,
  type ListedContainer,
  labels,
} from '../../../activities/containers/port.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { isBeingDeployed } from '../../../db/deploys/deployments.ts'

export interface HostServerOptions {
  db: Db
  engine: ContainerHost
  volumes: Volumes
  hostId: string
  /** Locks of each application of this host, shared with its activities. */
  locks: AppLocks
  /** Bearer token that the API sends. */
  key: string
  address: string
  port: number
  log: Logger
}

/** A route of a host for one application, `/apps/<id>/<name>`, or database. Leaving the context unchanged answers 404. */
export interface HostRoute {
  method: 'GET' | 'PUT' | 'PATCH' | 'DELETE'
  name: string
  handle(ctx: Koa.Context, id: string, host: HostServerOptions): Promise<void>
}

type Host = Pick<HostServerOptions, 'db' | 'engine' | 'hostId'>

/** The container of the release that serves; while that one is stopped, that of the newest that runs. */
export async function servingContainer(host: Host, appId: string): Promise<ContainerState | null> {
  return inspected(host, await servingOf(host, appId, await containersOf(host, appId)))
}

/** The container whose output is read: as long as a deploy runs its own, which may fail; else the one that serves. */
export async function printingContainer(host: Host, appId: string): Promise<ContainerState | null> {
  const containers = await containersOf(host, appId)
  const [newest, ...older] = containers
  const isNew = newest && older.length > 0 && (await isBeingDeployed(host.db, appId, releaseOf(newest)))
  return inspected(host, isNew ? newest : await servingOf(host, appId, containers))
}

const releaseOf = (container: ListedContainer): number => Number(container.labels[labels.release])

/** The newest release first. */
async function containersOf({ engine, hostId }: Host, appId: string): Promise<ListedContainer[]> {
  const containers = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  return containers.sort((a, b) => releaseOf(b) - releaseOf(a))
}

/**
 * Asks for the row, which says what serves, only while there are several. A program without a port is stopped before its new version
 * starts, which then is what runs, before the row says so.
 */
async function servingOf(
  { db }: Host,
  appId: string,
  containers: readonly ListedContainer[],
): Promise<ListedContainer | undefined> {
  const [newest, ...older] = containers
  if (older.length === 0) return newest
  const row = await loadApp(db, appId)
  const served = containers.find(container => releaseOf(container) === row?.release)
  return served?.running ? served : (containers.find(({ running }) => running) ?? served ?? newest)
}

const inspected = ({ engine }: Host, container: ListedContainer | undefined) =>
  container ? engine.inspect(container.name) : null
