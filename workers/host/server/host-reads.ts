import { labels } from '../../../activities/containers/port.ts'
import { shownState } from '../../../activities/live/live-feed.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { MiB } from '../../../lib/bytes.ts'
import { logSlots } from '../../../policy/hosts/host-slots.ts'
import { type HostRoute, newestContainer } from './host-route.ts'

const maxLogBytes = MiB

/** Maximum wait for a slot; the caller has given up by then. */
const slotWaitMs = 3000

/** Figures and logs of one application. */
export function readRoutes(): readonly HostRoute[] {
  const logReaders = new FairSlots(logSlots)
  return [
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
        const maxBytes = Math.min(Number(ctx.query.maxBytes) || maxLogBytes, maxLogBytes)
        if (!container) return
        const leave = await logReaders.enter(container.labels[labels.owner] ?? '', slotWaitMs)
        if (!leave || ctx.res.destroyed) {
          leave?.()
          ctx.status = 503
          return
        }
        const text = await host.engine.logs(container.name, maxBytes).finally(leave)
        if (text === null) return
        ctx.type = 'text/plain; charset=utf-8'
        ctx.body = text
      },
    },
  ]
}
