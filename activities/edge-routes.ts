import { servingApps } from '../db/apps.ts'
import type { Db } from '../db/database.ts'
import { bootOfApp, isBehind } from '../db/host-boots.ts'
import type { Machine } from '../lib/machine.ts'
import { goesOn } from './claims.ts'
import type { Edge, Route } from './edge.ts'
import type { Release, StartedContainer } from './release.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

type Switched = Pick<StartedContainer, 'hostPort' | 'hostAddress'> & Partial<Pick<StartedContainer, 'bootId'>>
type Place = Pick<Route, 'address' | 'port'>

/** The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none. */
export function edgeActivities(edge: Edge, db: Db, machine: Machine) {
  /** Looks again after it: a boot that has begun meanwhile has held the route, which must not be undone. */
  async function setRoute(host: string, { appId }: Release, placeNow: () => Promise<Place>) {
    let set: Place | null = null
    for (let place = await placeNow(); !same(place, set); place = await placeNow()) {
      await edge.setRoute({ host, appId, ...place })
      set = place
    }
  }

  /** Port 0 = nowhere: the lane may have been told of this port before its host was started anew, and now it may be anybody's. */
  async function placeOf(release: Release, { hostPort, hostAddress, bootId }: Switched): Promise<Place> {
    const address = hostAddress ?? release.hostAddress
    const nowhere = { address, port: 0 }
    const host = await bootOfApp(db, release.appId)
    if (host && isBehind(host, machine)) return nowhere
    if (bootId !== undefined)
      return !host?.boot_id || host.boot_id === bootId ? { address, port: hostPort ?? 0 } : nowhere
    const [serving] = await servingApps(db, release.appId)
    return serving ? { address: serving.address, port: serving.host_port } : nowhere
  }

  return {
    /** Sends requests to a container that was started; where no boot is told, to the version that its row says serves. */
    async switchRoute(release: Release, started: Switched): Promise<void> {
      if (!release.hostname || started.hostPort === null) return
      if (!(await goesOn(db, release))) return
      await setRoute(release.hostname, release, () => placeOf(release, started))
    },

    /** Sends requests to what its row says serves, also after the operation has ended. An application that is gone is success. */
    async routeStands(release: Release): Promise<void> {
      if (!release.hostname || !(await servingApps(db, release.appId))[0]) return
      await setRoute(release.hostname, release, () => placeOf(release, { hostPort: null }))
    },

    async removeRoute(release: Release): Promise<void> {
      if (release.hostname && (await goesOn(db, release))) await edge.removeRoute(release.hostname)
    },
  }
}

const same = (a: Place, b: Place | null): boolean => a.address === b?.address && a.port === b.port
