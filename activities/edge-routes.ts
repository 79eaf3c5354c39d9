import type { Db } from '../db/database.ts'
import { assertMine } from './claims.ts'
import type { Edge } from './edge.ts'
import type { Release, StartedContainer } from './release.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

/** The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none. */
export function edgeActivities(edge: Edge, db: Db) {
  return {
    async switchRoute(release: Release, started: Pick<StartedContainer, 'hostPort'>): Promise<void> {
      if (!release.hostname || started.hostPort === null) return
      await assertMine(db, release)
      await edge.setRoute({
        host: release.hostname,
        appId: release.appId,
        address: release.hostAddress,
        port: started.hostPort,
      })
    },

    async removeRoute(release: Release): Promise<void> {
      if (!release.hostname) return
      await assertMine(db, release)
      await edge.removeRoute(release.hostname)
    },
  }
}
