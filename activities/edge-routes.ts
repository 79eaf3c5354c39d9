import { servingApps } from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import { bootOfApp, isBehind } from '../db/host-boots.ts'
import type { Machine } from '../lib/machine.ts'
import { goesOn } from './claims.ts'
import type { Edge } from './edge.ts'
import type { Release, StartedContainer } from './release.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

type Switched = Pick<StartedContainer, 'hostPort'> & Partial<Pick<StartedContainer, 'bootId'>>

/** The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none. */
export function edgeActivities(edge: Edge, db: Db, machine: Machine) {
  /** Looks again after it: a boot that has begun meanwhile has held the route, which must not be undone. */
  async function setRoute(host: string, { appId, hostAddress: address }: Release, portNow: () => Promise<number>) {
    for (let set: number | null = null, port = await portNow(); port !== set; port = await portNow()) {
      await edge.setRoute({ host, appId, address, port })
      set = port
    }
  }

  /** 0 = nowhere: the lane may have been told of this port before its host was started anew, and now it may be anybody's. */
  async function portOf({ appId }: Release, { hostPort, bootId }: Switched): Promise<number> {
    const host = await bootOfApp(db, appId)
    if (host && isBehind(host, machine)) return 0
    if (bootId === undefined) return (await servingApps(db, appId))[0]?.host_port ?? 0
    return !host?.boot_id || host.boot_id === bootId ? (hostPort ?? 0) : 0
  }

  return {
    /** Sends requests to a container that was started; where no boot is told, to the version that its row says serves. */
    async switchRoute(release: Release, started: Switched): Promise<void> {
      if (!release.hostname || started.hostPort === null) return
      if (!(await goesOn(db, release))) return
      await setRoute(release.hostname, release, () => portOf(release, started))
    },

    /** Sends requests to what its row says serves, also after the operation has ended. An application that is gone is success. */
    async routeStands(release: Release): Promise<void> {
      if (!release.hostname || !(await servingApps(db, release.appId))[0]) return
      await setRoute(release.hostname, release, () => portOf(release, { hostPort: null }))
    },

    async removeRoute(release: Release): Promise<void> {
      if (release.hostname && (await goesOn(db, release))) await edge.removeRoute(release.hostname)
    },
  }
}
