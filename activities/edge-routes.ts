import { servingApps } from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import type { Edge } from './edge.ts'
import type { StartedContainer, StepOf } from './release.ts'
import { factsOfStep } from './step-facts.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

/**
 * The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none.
 * Host names and addresses are those of the rows, whatever the input says.
 */
export function edgeActivities(edge: Edge, db: Db, { appsDomain }: { appsDomain: string }) {
  const hostOf = (subdomain: string) => `${subdomain}.${appsDomain}`

  /** Null when there is nothing to route: no address, the application is gone, or its operation has ended. Rejects with ClaimLost. */
  async function routed(asked: StepOf): Promise<{ host: string; appId: string; address: string } | null> {
    const { appId, app, running } = await factsOfStep(db, asked)
    return running && app?.subdomain ? { host: hostOf(app.subdomain), appId, address: app.hostAddress } : null
  }

  return {
    async switchRoute(asked: StepOf, { hostPort }: Pick<StartedContainer, 'hostPort'>): Promise<void> {
      const route = hostPort === null ? null : await routed(asked)
      if (route) await edge.setRoute({ ...route, port: hostPort as number })
    },

    /** Sends requests to what its row says serves, also after the operation has ended. An application that is gone is success. */
    async routeStands({ appId }: StepOf): Promise<void> {
      const [serving] = await servingApps(db, appId)
      if (!serving) return
      const { subdomain, address, host_port: port } = serving
      await edge.setRoute({ host: hostOf(subdomain), appId, address, port })
    },

    async removeRoute(asked: StepOf): Promise<void> {
      const route = await routed(asked)
      if (route) await edge.removeRoute(route.host)
    },
  }
}
