/** Where the requests of one host name go. `address` and `port` are the published port of the serving container; port 0 = nowhere just now: 503. */
export interface Route {
  /** Full host name in lower case, for example `shop.apps.localhost`. */
  host: string
  appId: string
  address: string
  port: number
}

/** The reverse proxy: routes change without a reload and without a dropped request, and survive its restart. */
export interface Edge {
  /** Effective on return, also when an old target was there. Idempotent. */
  setRoute(route: Route): Promise<void>
  /** Unknown hosts are success. */
  removeRoute(host: string): Promise<void>
  /** Makes the proxy's table equal to `routes` (start of the platform, and healing). */
  syncRoutes(routes: Route[]): Promise<void>
  listRoutes(): Promise<Route[]>
}
