import type Koa from 'koa'
import type { Logger } from 'pino'
import { type ContainerHost, type ContainerState, labels } from '../../../activities/containers/port.ts'
import type { AppTurns } from '../../../activities/steps/app-turns.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'

export interface HostServerOptions {
  engine: ContainerHost
  volumes: Volumes
  hostId: string
  /** Turns on each application of this host, shared with its activities. */
  turns: AppTurns
  /** Bearer text that the API shows. */
  key: string
  address: string
  port: number
  log: Logger
}

/** What a host serves of one application: `/apps/<id>/<name>`. Leaving the context as it is answers 404. */
export interface HostRoute {
  method: 'GET' | 'PUT' | 'PATCH' | 'DELETE'
  name: string
  handle(ctx: Koa.Context, appId: string, host: HostServerOptions): Promise<void>
}

/** The container of the highest release: the one that serves, or the one that just failed. */
export async function newestContainer(
  { engine, hostId }: Pick<HostServerOptions, 'engine' | 'hostId'>,
  appId: string,
): Promise<ContainerState | null> {
  const found = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  const [newest] = found.sort((a, b) => Number(b.labels[labels.release]) - Number(a.labels[labels.release]))
  return newest ? engine.inspect(newest.name) : null
}
