import { timingSafeEqual } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import type { Logger } from 'pino'
import type { ContainerHost, ContainerState } from '../activities/container-host.ts'
import { labels } from '../activities/container-host.ts'
import type { Volumes } from '../activities/volume.ts'

export interface HostServerOptions {
  engine: ContainerHost
  volumes: Volumes
  hostId: string
  /** Bearer text that the API shows. */
  key: string
  address: string
  port: number
  log: Logger
}

const defaultLogBytes = 1024 * 1024

/** Serves what is read from a host (figures, logs) straight to the API; such reads never go through Temporal. */
export async function serveHost(options: HostServerOptions): Promise<{ url: string; server: Server }> {
  const app = new Koa()
  app.on('error', error => options.log.error({ err: error }, 'read server'))
  app.use(async ctx => {
    if (!matches(ctx.get('authorization'), `Bearer ${options.key}`)) {
      ctx.status = 401
      return
    }
    const [, appId, what] = /^\/apps\/([a-f0-9]{24,32})\/(stats|logs)$/.exec(ctx.path) ?? []
    if (!appId) return
    const container = await newestContainer(options, appId)
    if (what === 'stats') ctx.body = await readStats(options, appId, container)
    else await sendLogs(ctx, options, container)
  })
  const server = createServer({ headersTimeout: 10_000, keepAliveTimeout: 30_000 }, app.callback())
  await new Promise<void>((resolve, reject) =>
    server.once('error', reject).listen(options.port, options.address, resolve),
  )
  const { port } = server.address() as AddressInfo
  return { url: `http://${options.address}:${port}`, server }
}

async function readStats({ engine, volumes }: HostServerOptions, appId: string, container: ContainerState | null) {
  const [stats, storageBytes] = await Promise.all([
    container?.running ? engine.stats(container.name) : null,
    volumes.usedBytes(appId).catch(() => 0),
  ])
  const state = container && {
    status: container.status,
    running: container.running,
    startedAt: container.startedAt,
    exitCode: container.exitCode,
    oom: container.oom,
  }
  return { state, stats, storageBytes }
}

async function sendLogs(
  ctx: Koa.Context,
  { engine }: HostServerOptions,
  container: ContainerState | null,
): Promise<void> {
  const maxBytes = Math.min(Number(ctx.query.maxBytes) || defaultLogBytes, defaultLogBytes)
  const text = container && (await engine.logs(container.name, maxBytes))
  if (text === null) return
  ctx.type = 'text/plain; charset=utf-8'
  ctx.body = text
}

/** The container of the highest release: the one that serves, or the one that just failed. */
async function newestContainer({ engine, hostId }: HostServerOptions, appId: string): Promise<ContainerState | null> {
  const found = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  return found.sort((a, b) => Number(b.labels[labels.release]) - Number(a.labels[labels.release]))[0] ?? null
}

function matches(given: string, expected: string): boolean {
  const a = Buffer.from(given)
  const b = Buffer.from(expected)
  return a.length === b.length && timingSafeEqual(a, b)
}
