import type { Logger } from 'pino'
import { type Edge, type Route, RouteRefused } from '../../activities/edge/port.ts'
import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { hostsOf, isBehind, isOfEarlierBoot, recordRouted, unroutedBoots } from '../../db/hosts/host-boots.ts'
import { Notifications } from '../../db/notifications.ts'
import * as operations from '../../db/operations/operations.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Machine } from '../../lib/machine.ts'
import { roundSeconds } from '../../policy/rounds.ts'

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
  const { databaseUrl, log, everySeconds = roundSeconds.routes } = options
  const warn = (error: unknown) => log.warn({ err: error }, 'routes: will try again')
  const tell = refusals(log)
  const notifications = new Notifications(databaseUrl, ['apps', 'boots'])
  notifications.on('notify', (channel, appId) => {
    void (channel === 'boots' ? syncBoots(options) : syncRoute(options, appId)).catch(warn)
  })
  notifications.on('ready', () => void syncBoots(options).catch(warn))
  await notifications.open()
  // What a proxy that was away remembers may be old: it is told as soon as it is back.
  const everyMs = ({ failed }: { failed: boolean }) => (failed ? retryMs : everySeconds * 1000)
  await loop(async () => tell(await syncBoots(options)), { signal, everyMs, onError: warn })
  await notifications.close()
}

const retryMs = 1000

/**
 * Makes the proxy's table equal to what runs, and then tells hosts that wait for it in a new boot. A host waits on while a route to it
 * could be neither set nor held: it may lead to a port of an earlier boot. Resolves to what the proxy refused.
 */
async function syncBoots(tables: Tables): Promise<Refusal[]> {
  const boots = await unroutedBoots(tables.db)
  const { refused } = await syncRoutes(tables)
  const misleading = refused.filter(({ leads }) => leads).map(({ appId }) => appId)
  const waiting = await hostsOf(tables.db, misleading)
  if (waiting)
    await recordRouted(
      tables.db,
      boots.filter(({ id }) => !waiting.has(id)),
    )
  return refused
}

/** Tells of a refusal when it is new, and of its end. */
function refusals(log: Logger): (refused: readonly Refusal[]) => void {
  let told = new Map<string, string>()
  return refused => {
    for (const { host, appId, why } of refused)
      if (told.get(host) !== why)
        log.error({ host, appId, why }, 'routes: the proxy refuses one, it is tried again with each round')
    const now = new Map(refused.map(({ host, why }) => [host, why]))
    for (const host of told.keys())
      if (!now.has(host)) log.info({ host }, 'routes: nothing is refused for this name any more')
    told = now
  }
}

type Tables = Pick<RouteKeeperOptions, 'db' | 'edge' | 'appsDomain' | 'machine'>

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
}

/** Brings the route of one application in step. One that is gone altogether is left to its deletion and to the full comparison. */
export async function syncRoute(tables: Tables, appId: string): Promise<void> {
  const { db, edge, appsDomain } = tables
  const app = await apps.loadApp(db, appId)
  if (!app?.subdomain) return
  const [serving] = await apps.servingApps(db, appId)
  if (serving) await setCurrent(tables, routeOf(serving, tables))
  else if (app.status === 'exited') await edge.removeRoute(`${app.subdomain}.${appsDomain}`)
}

/** Makes the proxy's table equal to the applications that run. What the proxy refuses is left out, and holds up nothing else. */
export async function syncRoutes(tables: Tables): Promise<Round> {
  const { db, edge } = tables
  const known = new Map((await edge.listRoutes()).map(route => [route.host, route]))
  const wanted = (await apps.servingApps(db)).map(app => routeOf(app, tables))
  const round: Round = { changed: 0, refused: [] }

  async function change({ host, appId }: Route, old: Route | undefined, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      round.changed++
    } catch (error) {
      if (!(error instanceof RouteRefused)) throw error
      round.refused.push({ host, appId, why: error.message, leads: Boolean(old && !(await held(edge, old))) })
    }
  }

  for (const route of wanted) {
    const old = known.get(route.host)
    known.delete(route.host)
    if (old && same(old, route)) continue
    // A step has just given the application its next container's address, and records it in a moment.
    if (old && old.port !== 0 && route.port !== 0 && (await operations.isSwitching(db, route.appId))) continue
    await change(route, old, () => setCurrent(tables, route))
  }
  for (const stale of known.values()) {
    // A release that just passed its gate has its route a moment before its row says so.
    const app = await apps.loadApp(db, stale.appId)
    if (!app || app.status === 'exited') await change(stale, stale, () => edge.removeRoute(stale.host))
    // Its port is of an earlier boot and may be anybody's: the name waits until the application has been started.
    else if (stale.port !== 0 && (await isOfEarlierBoot(db, app.id)))
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
  const wanted = (await apps.servingApps(db)).map(app => routeOf(app, tables))
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
