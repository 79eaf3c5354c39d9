import { assertRoute, type Edge, type Route } from '../../../activities/edge/port.ts'

/** The edge as a table in memory; held to the same suite as nginx. */
export function fakeEdge(): Edge {
  const routes = new Map<string, Route>()
  return {
    async setRoute(route) {
      assertRoute(route)
      routes.set(route.host, { ...route })
    },
    async removeRoute(host) {
      routes.delete(host)
    },
    async syncRoutes(wanted) {
      routes.clear()
      for (const route of wanted) routes.set(route.host, { ...route })
    },
    async listRoutes() {
      return [...routes.values()].map(route => ({ ...route }))
    },
  }
}
