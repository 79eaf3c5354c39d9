import { type ContainerState, labels } from '../../../activities/containers/port.ts'
import { databaseContainerName, databaseVolume } from '../../../activities/databases/names.ts'
import { shownState } from '../../../activities/live/live-feed.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { MiB } from '../../../lib/bytes.ts'
import { logSlots } from '../../../policy/hosts/host-slots.ts'
import { type HostRoute, type HostServerOptions, printingContainer, servingContainer } from './host-route.ts'

const maxLogBytes = MiB

/** How long a count of files is shown; longer than one may take (activities/volumes/folder.ts), so that a volume has one at a time. */
const usageSeconds = 30

/** Maximum wait for a slot; the caller has given up by then. */
const slotWaitMs = 3000

/** What serves, or has served last: its container, null when there is none, and its volume. */
interface Place {
  container: ContainerState | null
  volume: string
}

/** Null = it is not on this host. */
type Find = (host: HostServerOptions, id: string) => Promise<Place | null>

const appPlace: Find = async (host, appId) => ({ container: await servingContainer(host, appId), volume: appId })
const printingPlace: Find = async (host, appId) => ({ container: await printingContainer(host, appId), volume: appId })

/** A database that is restored has two generations for a while; the row says which one serves. */
const databasePlace: Find = async ({ db, engine, hostId }, databaseId) => {
  const row = await loadDatabase(db, databaseId)
  if (row?.host_id !== hostId) return null
  return { container: await engine.inspect(databaseContainerName(row)), volume: databaseVolume(row) }
}

/** Figures and logs of one application or one database. */
export function readRoutes(): Record<'apps' | 'databases', readonly HostRoute[]> {
  const logReaders = new FairSlots(logSlots)
  const usage = new TtlCache<number>(usageSeconds)
  const routesOf = (find: Find, printing = find) => [statsRoute(find, usage), logsRoute(printing, logReaders)]
  return { apps: routesOf(appPlace, printingPlace), databases: routesOf(databasePlace) }
}

/** Without disks of their own, all files of a volume are counted: once for all who ask, and not at each status. */
function usedBytes({ volumes }: HostServerOptions, volume: string, usage: TtlCache<number>): Promise<number> {
  const count = () => volumes.usedBytes(volume).catch(() => 0)
  return volumes.quota === 'checked' ? usage.of(volume, count) : count()
}

function statsRoute(find: Find, usage: TtlCache<number>): HostRoute {
  return {
    method: 'GET',
    name: 'stats',
    async handle(ctx, id, host) {
      const place = await find(host, id)
      if (!place) return
      const { container, volume } = place
      const [stats, storageBytes] = await Promise.all([
        container?.running ? host.engine.stats(container.name) : null,
        usedBytes(host, volume, usage),
      ])
      ctx.body = { state: container && shownState(container), stats, storageBytes }
    },
  }
}

function logsRoute(find: Find, logReaders: FairSlots): HostRoute {
  return {
    method: 'GET',
    name: 'logs',
    async handle(ctx, id, host) {
      const container = (await find(host, id))?.container
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
  }
}
