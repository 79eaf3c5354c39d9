import { isIP } from 'node:net'

/** Where the requests of one host name go. `address` and `port` are the published port of the serving container; port 0 = nowhere just now: 503. */
export interface Route {
  /** Full host name in lower case, for example `shop.apps.localhost`. */
  host: string
  appId: string
  address: string
  port: number
}

/** The proxy will not have this route, whatever the reason: it changes nothing, and says nothing about others. */
export class RouteRefused extends Error {
  override name = 'RouteRefused'
}

/** Throws RouteRefused for what no proxy can have. */
export function assertRoute({ host, appId, address, port }: Route): void {
  const refuse = (why: string, value: string) => new RouteRefused(`${why}: ${JSON.stringify(value)}`)
  if (!isHostName(host)) throw refuse('Not a host name in lower case', host)
  if (!/^[\w-]+$/.test(appId)) throw refuse('Not an application id', appId)
  if (!isIP(address)) throw refuse('A route needs an IP address (HOST_ADDRESS)', address)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw refuse('Not a port', String(port))
}

export function isHostName(host: string): boolean {
  return host.length <= 253 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(host)
}

/** How far the memory of a proxy goes. */
export interface EdgeStanding {
  /** Another one after each start of the proxy. */
  run: string
  /** Up to where its table is complete; null when no mark was set since it was started. */
  mark: string | null
}

/** The reverse proxy: routes change without a reload and without a dropped request, and survive its restart. */
export interface Edge {
  /** Effective on return, also when an old target was there. Idempotent. Throws RouteRefused, and any other error when the proxy is away. */
  setRoute(route: Route): Promise<void>
  /** Unknown hosts are success. */
  removeRoute(host: string): Promise<void>
  /** Makes the proxy's table equal to `routes` (start of the platform, and healing). */
  syncRoutes(routes: Route[]): Promise<void>
  listRoutes(): Promise<Route[]>
  /** Those of these hosts that it has. */
  findRoutes(hosts: readonly string[]): Promise<Route[]>
  standing(): Promise<EdgeStanding>
  /**
   * Records up to where the table is complete: letters, digits, `.`, `/`, `:`, `-` and spaces. Forgotten when the proxy starts anew or the
   * whole table is replaced; of another run than the present one it is success and changes nothing.
   */
  setMark(run: string, mark: string): Promise<void>
}
