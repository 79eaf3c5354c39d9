import { servingApps } from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import { goesOn } from './claims.ts'
import type { Edge } from './edge.ts'
import type { Release, StartedContainer } from './release.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

/** The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none. */
export function edgeActivities(edge: Edge, db: Db) {
  const setRoute = (host: string, { appId }: Release, address: string, port: number) =>
    edge.setRoute({ host, appId, address, port })

  return {
    async switchRoute(
      release: Release,
      { hostPort, hostAddress }: Pick<StartedContainer, 'hostPort' | 'hostAddress'>,
    ): Promise<void> {
      if (!release.hostname || hostPort === null) return
      if (!(await goesOn(db, release))) return
      await setRoute(release.hostname, release, hostAddress ?? release.hostAddress, hostPort)
    },

    /** Sends requests to what its row says serves, also after the operation has ended. An application that is gone is success. */
    async routeStands(release: Release): Promise<void> {
      const [serving] = await servingApps(db, release.appId)
      if (!release.hostname || !serving) return
      await setRoute(release.hostname, release, serving.address, serving.host_port)
    },

    async removeRoute(release: Release): Promise<void> {
      if (release.hostname && (await goesOn(db, release))) await edge.removeRoute(release.hostname)
    },
  }
}
