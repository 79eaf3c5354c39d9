import type Koa from 'koa'
import type { Logger } from 'pino'
import { type ContainerHost, type ContainerState, labels } from '../../../activities/containers/port.ts'
import type { AppLocks } from '../../../activities/steps/app-locks.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import type { Db } from '../../../db/database.ts'

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

/** The container of the highest release: the one that serves, or that has just failed. */
export async function newestContainer(
  { engine, hostId }: Pick<HostServerOptions, 'engine' | 'hostId'>,
  appId: string,
): Promise<ContainerState | null> {
  const containers = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  const [newest] = containers.sort((a, b) => Number(b.labels[labels.release]) - Number(a.labels[labels.release]))
  return newest ? engine.inspect(newest.name) : null
}
