import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Edge } from '../activities/edge.ts'
import * as apps from '../db/apps.ts'
import type { Db } from '../db/database.ts'

export interface RouteKeeperOptions {
  db: Db
  edge: Edge
  appsDomain: string
  log: Logger
  everySeconds?: number
}

/**
 * Keeps the proxy's table equal to what runs: an application that ended by itself loses its address before another container
 * can be given its port. `changes` yields ids of applications that changed; everything is compared every few seconds too.
 */
export async function keepRoutes(
  { db, edge, appsDomain, log, everySeconds = 5 }: RouteKeeperOptions,
  changes: { next(timeoutMs: number): Promise<unknown> },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await syncRoutes({ db, edge, appsDomain })
      await changes.next(everySeconds * 1000)
    } catch (error) {
      log.warn({ err: error }, 'routes: will try again')
      await sleep(1000, undefined, { signal }).catch(() => {})
    }
  }
}

/** Makes the proxy's table equal to the applications that run; resolves to the number of changes. */
export async function syncRoutes({ db, edge, appsDomain }: Pick<RouteKeeperOptions, 'db' | 'edge' | 'appsDomain'>): Promise<number> {
  const before = await edge.listRoutes()
  const serving = await apps.servingApps(db)
  const wanted = serving.map(app => ({
    host: `${app.subdomain}.${appsDomain}`,
    appId: app.id,
    address: app.address,
    port: app.host_port,
  }))
  const known = new Map(before.map(route => [route.host, route]))
  let changed = 0
  for (const route of wanted) {
    const old = known.get(route.host)
    known.delete(route.host)
    if (old?.address === route.address && old.port === route.port && old.appId === route.appId) continue
    await edge.setRoute(route)
    changed++
  }
  for (const stale of known.values()) {
    // A release that just passed its gate has its route before its row says so.
    const fresh = await apps.loadApp(db, stale.appId)
    if (fresh && ['created', 'starting', 'restarting'].includes(fresh.status)) continue
    if (fresh?.status === 'running') continue
    await edge.removeRoute(stale.host)
    changed++
  }
  return changed
}
