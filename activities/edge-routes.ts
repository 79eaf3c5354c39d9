import type { Edge } from './edge.ts'
import type { Release, StartedContainer } from './release.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

/** The address of an application follows its container. Programs without a port have none. */
export function edgeActivities(edge: Edge) {
  return {
    async switchRoute(release: Release, started: Pick<StartedContainer, 'hostPort'>): Promise<void> {
      if (!release.hostname || started.hostPort === null) return
      await edge.setRoute({
        host: release.hostname,
        appId: release.appId,
        address: release.hostAddress,
        port: started.hostPort,
      })
    },

    async removeRoute(release: Release): Promise<void> {
      if (release.hostname) await edge.removeRoute(release.hostname)
    },
  }
}
