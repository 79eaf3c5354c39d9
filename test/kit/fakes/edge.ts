import { randomUUID } from 'node:crypto'
import { assertRoute, type Edge, type Route } from '../../../activities/edge/port.ts'

/** The edge as a table in memory; held to the same suite as nginx. */
export function fakeEdge(): Edge {
  const routes = new Map<string, Route>()
  const run = randomUUID()
  let mark: string | null = null
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
      mark = null
      for (const route of wanted) routes.set(route.host, { ...route })
    },
    async listRoutes() {
      return [...routes.values()].map(route => ({ ...route }))
    },
    async findRoutes(hosts) {
      return [...new Set(hosts)].flatMap(host => routes.get(host) ?? []).map(route => ({ ...route }))
    },
    async standing() {
      return { run, mark }
    },
    async setMark(of, text) {
      if (of === run) mark = text
    },
  }
}
