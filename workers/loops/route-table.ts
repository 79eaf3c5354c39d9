import { type Edge, type Route, RouteRefused } from '../../activities/edge/port.ts'
import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { isBootOutdated, ranInEarlierBoot } from '../../db/hosts/host-boots.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Machine } from '../../lib/machine.ts'
import { routeAccount } from '../../policy/edge/route-account.ts'
import { routeVersion, versionAfterPurge } from '../../policy/edge/route-version.ts'

/** The proxy's table, and the rows that it must match. */
export interface Tables {
  db: Db
  edge: Edge
  appsDomain: string
  /** The machine of the proxy and of this process. */
  machine: Machine
}

/** A route that the proxy refused. */
export interface RefusedRoute {
  host: string
  appId: string
  why: string
  /** Whether the proxy's old route is still active. */
  leads: boolean
}

export interface Round {
  changed: number
  refused: RefusedRoute[]
  /** Names to check again even without another change: refused ones, and those of operations in progress. */
  unsettled: string[]
}

/** Updates the route of one application. An application without a row is left to its deletion and to the full comparison. */
export async function syncRoute(tables: Tables, appId: string): Promise<void> {
  const { db, edge } = tables
  const app = await apps.loadApp(db, appId)
  if (!app?.subdomain) return
  const [serving] = await apps.listServingApps(db, appId)
  if (serving) return setServing(tables, serving)
  const [old] = await edge.findRoutes([hostOf(app.subdomain, tables)])
  if (old?.appId === appId) await (await correctionOf(tables, old, app))?.()
}

/**
 * Makes the proxy's table, or its entries of `hosts`, equal to the running applications. Routes that the proxy refuses are skipped and
 * do not delay others.
 */
export async function syncRoutes(tables: Tables, hosts?: readonly string[]): Promise<Round> {
  const { db, edge } = tables
  const present = new Map(
    (await (hosts ? edge.findRoutes(hosts) : edge.listRoutes())).map(route => [route.host, route]),
  )
  const serving = await apps.listServingApps(db, undefined, hosts && subdomainsOf(hosts, tables))
  const round: Round = { changed: 0, refused: [], unsettled: [] }

  async function change({ host, appId }: Route, old: Route | undefined, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      round.changed++
    } catch (error) {
      if (!(error instanceof RouteRefused)) throw error
      round.refused.push({ host, appId, why: error.message, leads: Boolean(old && !(await hold(edge, old))) })
      round.unsettled.push(host)
    }
  }

  for (const app of serving) {
    const route = routeOf(app, tables)
    const old = present.get(route.host)
    present.delete(route.host)
    if (old && same(old, route)) continue
    const switched = await switchedRoute(tables, route, old)
    if (switched) {
      round.unsettled.push(route.host)
      if (isUnpurged(switched, app)) await change(switched, old, () => setPurged(tables, switched, app))
      continue
    }
    await change(route, old, () => setCurrent(tables, route))
  }
  for (const stale of present.values()) {
    const correct = await correctionOf(tables, stale, await apps.loadApp(db, stale.appId))
    if (correct) await change(stale, stale, correct)
  }
  return round
}

/** Holds an old, wrong route, so that its requests go nowhere; resolves to whether that worked. */
async function hold(edge: Edge, old: Route): Promise<boolean> {
  if (old.port === 0) return true
  return edge.setRoute({ ...old, port: 0 }).then(
    () => true,
    error => {
      if (!(error instanceof RouteRefused)) throw error
      return false
    },
  )
}

/** Names of running applications whose route in the proxy is wrong or missing. */
export async function namesWithWrongRoute(tables: Tables): Promise<string[]> {
  const { db, edge } = tables
  const present = new Map((await edge.listRoutes()).map(route => [route.host, route]))
  const target = (await apps.listServingApps(db)).map(app => routeOf(app, tables))
  return target
    .filter(route => {
      const current = present.get(route.host)
      return !current || !same(current, route)
    })
    .map(({ host }) => host)
}

/** Updates the route of a serving application, or only its version while a step switches it. */
async function setServing(tables: Tables, app: apps.ServingApp): Promise<void> {
  const route = routeOf(app, tables)
  const [old] = await tables.edge.findRoutes([route.host])
  const switched = await switchedRoute(tables, route, old)
  if (switched) await setPurged(tables, switched, app)
  else await setCurrent(tables, route)
}

/** The route that a step may just have set to the application's next container, which it records in a moment; null without such a step. */
async function switchedRoute({ db }: Tables, route: Route, old: Route | undefined): Promise<Route | null> {
  if (!old || old.appId !== route.appId || old.port === 0 || route.port === 0) return null
  return (await operations.isSwitching(db, route.appId)) ? old : null
}

/** Corrects the route of an application that does not serve, by its row; null where it is right. */
async function correctionOf(
  tables: Tables,
  route: Route,
  app: apps.AppRow | undefined,
): Promise<(() => Promise<void>) | null> {
  const { db, edge } = tables
  // A release that has just passed its gate gets its route a moment before its row is updated.
  if (!app || app.status === 'exited') return () => edge.removeRoute(route.host, route)
  // Its port is from an earlier boot and may belong to another program: the name is held until the application has started.
  if (route.port !== 0 && (await ranInEarlierBoot(db, app.id))) return () => edge.setRoute({ ...route, port: 0 })
  return isUnpurged(route, app) ? () => setPurged(tables, route, app) : null
}

type Purged = Pick<apps.ServingApp, 'id' | 'release' | 'cache_version'>

/** A purge takes effect immediately, whichever of two releases the route leads to. */
const purgedRoute = (old: Route, { release, cache_version }: Purged): Route => ({
  ...old,
  version: versionAfterPurge(old.version, { release, cacheVersion: cache_version }),
})

/** A held route leads nowhere, so nothing is answered from the cache. */
const isUnpurged = (old: Route, app: Purged): boolean => old.port !== 0 && !same(old, purgedRoute(old, app))

/**
 * Gives a route that a step switches, or whose application restarts, the version after the last purge, and then checks the row again: the
 * route may have been switched meanwhile, or its application have ended.
 */
async function setPurged(tables: Tables, old: Route, app: Purged): Promise<void> {
  if (!isUnpurged(old, app)) return
  const purged = purgedRoute(old, app)
  await tables.edge.setRoute(purged)
  const [serving] = await apps.listServingApps(tables.db, app.id)
  if (!serving) await (await correctionOf(tables, purged, await apps.loadApp(tables.db, app.id)))?.()
  else if (!(await operations.isSwitching(tables.db, app.id))) await setCurrent(tables, routeOf(serving, tables))
}

/** Sets a route, then checks the row again: an application that was deleted or moved in between must not get its old route back. */
async function setCurrent(tables: Tables, route: Route): Promise<void> {
  await tables.edge.setRoute(route)
  const [now] = await apps.listServingApps(tables.db, route.appId)
  if (now && same(routeOf(now, tables), route)) return
  if (await apps.loadApp(tables.db, route.appId)) return syncRoute(tables, route.appId)
  await tables.edge.removeRoute(route.host, route)
}

export const hostOf = (subdomain: string, { appsDomain }: Pick<Tables, 'appsDomain'>): string =>
  `${subdomain}.${appsDomain}`

/** Names outside the domain of applications, which a setting may have changed, belong to no application. */
export function subdomainsOf(hosts: readonly string[], { appsDomain }: Tables): string[] {
  const end = `.${appsDomain}`
  return hosts.filter(host => host.endsWith(end)).map(host => host.slice(0, -end.length))
}

function routeOf(app: apps.ServingApp, tables: Tables): Route {
  const port = isBootOutdated(app, tables.machine) ? 0 : app.host_port
  const version = routeVersion({ release: app.release, cacheVersion: app.cache_version })
  const account = routeAccount(app.owner_id)
  return { host: hostOf(app.subdomain, tables), appId: app.id, address: app.address, port, version, account }
}

const same = (a: Route, b: Route): boolean =>
  a.address === b.address &&
  a.port === b.port &&
  a.appId === b.appId &&
  a.version === b.version &&
  a.account === b.account
