import { shownState } from '../activities/live-feed.ts'
import { type HostRoute, newestContainer } from './host-route.ts'

const mostLogBytes = 1024 * 1024

/** Figures and logs of one application. */
export const readRoutes: readonly HostRoute[] = [
  {
    method: 'GET',
    name: 'stats',
    async handle(ctx, appId, host) {
      const container = await newestContainer(host, appId)
      const [stats, storageBytes] = await Promise.all([
        container?.running ? host.engine.stats(container.name) : null,
        host.volumes.usedBytes(appId).catch(() => 0),
      ])
      ctx.body = { state: container && shownState(container), stats, storageBytes }
    },
  },
  {
    method: 'GET',
    name: 'logs',
    async handle(ctx, appId, host) {
      const container = await newestContainer(host, appId)
      const maxBytes = Math.min(Number(ctx.query.maxBytes) || mostLogBytes, mostLogBytes)
      const text = container && (await host.engine.logs(container.name, maxBytes))
      if (text === null) return
      ctx.type = 'text/plain; charset=utf-8'
      ctx.body = text
    },
  },
]
