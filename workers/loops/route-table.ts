import { type Edge, type Route, RouteRefused } from '../../activities/edge/port.ts'
import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { isBootOutdated, ranInEarlierBoot } from '../../db/hosts/host-boots.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Machine } from '../../lib/machine.ts'

/** The proxy's table, and the rows that it is to be equal to. */
export interface Tables {
  db: Db
  edge: Edge
  appsDomain: string
  /** Where the proxy runs, and with it this process. */
  machine: Machine
}

/** A route that the proxy would not have. */
export interface Refusal {
  host: string
  appId: string
  why: string
  /** Whether requests still go where the proxy's old route leads. */
  leads: boolean
}

export interface Round {
  changed: number
  refused: Refusal[]
  /** Names that have to be looked at again, although nothing may change any more: refused ones, and those of an operation under way. */
  unsettled: string[]
}

/** Brings the route of one application up to date. One without a row is left to its deletion and to the full comparison. */
export async function syncRoute(tables: Tables, appId: string): Promise<void> {
  const { db, edge } = tables
  const app = await apps.loadApp(db, appId)
  if (!app?.subdomain) return
  const [serving] = await apps.listServingApps(db, appId)
  if (serving) await setCurrent(tables, routeOf(serving, tables))
  else if (app.status === 'exited') await edge.removeRoute(hostOf(app.subdomain, tables))
}

/**
 * Makes the proxy's table equal to the applications that run, or what it has of `hosts`. What the proxy refuses is left out, and holds
 * up nothing else.
 */
export async function syncRoutes(tables: Tables, hosts?: readonly string[]): Promise<Round> {
  const { db, edge } = tables
  const known = new Map((await (hosts ? edge.findRoutes(hosts) : edge.listRoutes())).map(route => [route.host, route]))
  const serving = await apps.listServingApps(db, undefined, hosts && subdomainsOf(hosts, tables))
  const wanted = serving.map(app => routeOf(app, tables))
  const round: Round = { changed: 0, refused: [], unsettled: [] }

  async function change({ host, appId }: Route, old: Route | undefined, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      round.changed++
    } catch (error) {
      if (!(error instanceof RouteRefused)) throw error
      round.refused.push({ host, appId, why: error.message, leads: Boolean(old && !(await held(edge, old))) })
      round.unsettled.push(host)
    }
  }

  for (const route of wanted) {
    const old = known.get(route.host)
    known.delete(route.host)
    if (old && same(old, route)) continue
    // A step has just given the application its next container's address, and records it in a moment.
    if (old && old.port !== 0 && route.port !== 0 && (await operations.isSwitching(db, route.appId))) {
      round.unsettled.push(route.host)
      continue
    }
    await change(route, old, () => setCurrent(tables, route))
  }
  for (const stale of known.values()) {
    // A release that just passed its gate has its route a moment before its row says so.
    const app = await apps.loadApp(db, stale.appId)
    if (!app || app.status === 'exited') await change(stale, stale, () => edge.removeRoute(stale.host))
    // Its port is of an earlier boot and may be anybody's: the name waits until the application has been started.
    else if (stale.port !== 0 && (await ranInEarlierBoot(db, app.id)))
      await change(stale, stale, () => edge.setRoute({ ...stale, port: 0 }))
  }
  return round
}

/** Whether requests of an old route, which is wrong by now, go nowhere from here on. */
async function held(edge: Edge, old: Route): Promise<boolean> {
  if (old.port === 0) return true
  return edge.setRoute({ ...old, port: 0 }).then(
    () => true,
    error => {
      if (!(error instanceof RouteRefused)) throw error
      return false
    },
  )
}

/** Names of applications that run and whose route in the proxy is another one, or is not there. */
export async function namesAmiss(tables: Tables): Promise<string[]> {
  const { db, edge } = tables
  const known = new Map((await edge.listRoutes()).map(route => [route.host, route]))
  const wanted = (await apps.listServingApps(db)).map(app => routeOf(app, tables))
  return wanted
    .filter(route => {
      const has = known.get(route.host)
      return !has || !same(has, route)
    })
    .map(({ host }) => host)
}

/** Sets a route, and looks again: what was deleted or moved between reading and setting must not come back with it. */
async function setCurrent(tables: Tables, route: Route): Promise<void> {
  await tables.edge.setRoute(route)
  const [now] = await apps.listServingApps(tables.db, route.appId)
  if (now && same(routeOf(now, tables), route)) return
  if (await apps.loadApp(tables.db, route.appId)) return syncRoute(tables, route.appId)
  await tables.edge.removeRoute(route.host)
}

export const hostOf = (subdomain: string, { appsDomain }: Pick<Tables, 'appsDomain'>): string =>
  `${subdomain}.${appsDomain}`

/** Names outside of the domain of applications, which a setting may have changed, belong to no application. */
function subdomainsOf(hosts: readonly string[], { appsDomain }: Tables): string[] {
  const end = `.${appsDomain}`
  return hosts.filter(host => host.endsWith(end)).map(host => host.slice(0, -end.length))
}

function routeOf(app: apps.ServingApp, tables: Tables): Route {
  const port = isBootOutdated(app, tables.machine) ? 0 : app.host_port
  return { host: hostOf(app.subdomain, tables), appId: app.id, address: app.address, port }
}

const same = (a: Route, b: Route): boolean => a.address === b.address && a.port === b.port && a.appId === b.appId
