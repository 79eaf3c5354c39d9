import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import { sameText } from '../../../lib/signed-text.ts'
import { fileRoutes } from './host-files.ts'
import { liveRoute } from './host-live.ts'
import { readRoutes } from './host-reads.ts'
import type { HostServerOptions } from './host-route.ts'

/** Serves reads and file changes of a host directly to the API; such calls never go through Temporal. */
export async function serveHost(options: HostServerOptions): Promise<{ url: string; server: Server }> {
  const app = new Koa()
  const reads = readRoutes()
  const served = { apps: [...reads.apps, ...fileRoutes, liveRoute()], databases: reads.databases }
  app.on('error', error => options.log.error({ err: error }, 'read server'))
  app.use(async ctx => {
    if (!sameText(ctx.get('authorization'), `Bearer ${options.key}`)) {
      ctx.status = 401
      return
    }
    const [, kind, id, name] = /^\/(apps|databases)\/([a-f0-9]{24,32})\/([a-z/-]+)$/.exec(ctx.path) ?? []
    const routes = kind ? served[kind as keyof typeof served] : []
    const route = routes.find(candidate => candidate.name === name && candidate.method === ctx.method)
    if (id && route) await route.handle(ctx, id, options)
  })
  const server = createServer({ headersTimeout: 10_000, keepAliveTimeout: 30_000 }, app.callback())
  await new Promise<void>((resolve, reject) =>
    server.once('error', reject).listen(options.port, options.address, resolve),
  )
  const { port } = server.address() as AddressInfo
  return { url: `http://${options.address}:${port}`, server }
}
