import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Edge, Route } from '../activities/edge.ts'
import * as apps from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import { isBehind, isOfEarlierBoot, recordRouted, unroutedBoots } from '../db/host-boots.ts'
import { Notifications } from '../db/notifications.ts'
import * as operations from '../db/operations.ts'
import type { Machine } from '../lib/machine.ts'

export interface RouteKeeperOptions {
  db: Db
  edge: Edge
  databaseUrl: string
  appsDomain: string
  /** Where the proxy runs, and with it this process. */
  machine: Machine
  log: Logger
  everySeconds?: number
}

/**
 * Keeps the proxy's table equal to what runs until the signal aborts: an application that ended by itself loses its address
 * before another container can be given its port. One application at its announced change, everything every few seconds.
 */
export async function keepRoutes(options: RouteKeeperOptions, signal: AbortSignal): Promise<void> {
  const { databaseUrl, log, everySeconds = 10 } = options
  const warn = (error: unknown) => log.warn({ err: error }, 'routes: will try again')
  const notifications = new Notifications(databaseUrl, ['apps', 'boots'])
  notifications.on('notify', (channel, appId) => {
    void (channel === 'boots' ? syncBoots(options) : syncRoute(options, appId)).catch(warn)
  })
  notifications.on('ready', () => void syncBoots(options).catch(warn))
  await notifications.open()
  while (!signal.aborted) {
    const done = await syncBoots(options).then(
      () => true,
      error => warn(error),
    )
    // What a proxy that was away remembers may be old: it is told as soon as it is back.
    await sleep(done ? everySeconds * 1000 : retryMs, undefined, { signal }).catch(() => {})
  }
  await notifications.close()
}

const retryMs = 1000

/** Makes the proxy's table equal to what runs, and then tells hosts that wait for it in a new boot. */
async function syncBoots(tables: Tables): Promise<void> {
  const boots = await unroutedBoots(tables.db)
  await syncRoutes(tables)
  await recordRouted(tables.db, boots)
}

type Tables = Pick<RouteKeeperOptions, 'db' | 'edge' | 'appsDomain' | 'machine'>

/** Brings the route of one application in step. One that is gone altogether is left to its deletion and to the full comparison. */
export async function syncRoute(tables: Tables, appId: string): Promise<void> {
  const { db, edge, appsDomain } = tables
  const app = await apps.loadApp(db, appId)
  if (!app?.subdomain) return
  const [serving] = await apps.servingApps(db, appId)
  if (serving) await setCurrent(tables, routeOf(serving, tables))
  else if (app.status === 'exited') await edge.removeRoute(`${app.subdomain}.${appsDomain}`)
}

/** Makes the proxy's table equal to the applications that run; resolves to the number of changes. */
export async function syncRoutes(tables: Tables): Promise<number> {
  const { db, edge } = tables
  const known = new Map((await edge.listRoutes()).map(route => [route.host, route]))
  const wanted = (await apps.servingApps(db)).map(app => routeOf(app, tables))
  let changed = 0
  for (const route of wanted) {
    const old = known.get(route.host)
    known.delete(route.host)
    if (old && same(old, route)) continue
    // A step has just given the application its next container's address, and records it in a moment.
    if (old && old.port !== 0 && route.port !== 0 && (await operations.isSwitching(db, route.appId))) continue
    await setCurrent(tables, route)
    changed++
  }
  for (const stale of known.values()) {
    // A release that just passed its gate has its route a moment before its row says so.
    const app = await apps.loadApp(db, stale.appId)
    if (app && app.status !== 'exited') {
      // Its port is of an earlier boot and may be anybody's: the name waits until the application has been started.
      if (stale.port !== 0 && (await isOfEarlierBoot(db, app.id))) await edge.setRoute({ ...stale, port: 0 })
      continue
    }
    await edge.removeRoute(stale.host)
    changed++
  }
  return changed
}

/** Sets a route, and looks again: what was deleted or moved between reading and setting must not come back with it. */
async function setCurrent(tables: Tables, route: Route): Promise<void> {
  await tables.edge.setRoute(route)
  const [now] = await apps.servingApps(tables.db, route.appId)
  if (now && same(routeOf(now, tables), route)) return
  if (await apps.loadApp(tables.db, route.appId)) return syncRoute(tables, route.appId)
  await tables.edge.removeRoute(route.host)
}

function routeOf(app: apps.ServingApp, { appsDomain, machine }: Tables): Route {
  const port = isBehind(app, machine) ? 0 : app.host_port
  return { host: `${app.subdomain}.${appsDomain}`, appId: app.id, address: app.address, port }
}

const same = (a: Route, b: Route): boolean => a.address === b.address && a.port === b.port && a.appId === b.appId
