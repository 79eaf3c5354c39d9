import { listServingApps } from '../db/apps/apps.ts'
import type { Db } from '../db/database.ts'
import { findBootOfApp, isBootOutdated } from '../db/hosts/host-boots.ts'
import type { AppFacts } from '../db/operations/operation-facts.ts'
import type { Machine } from '../lib/machine.ts'
import { ownAddress } from '../policy/apps/own-address.ts'
import type { Edge, Route } from './edge/port.ts'
import type { StartedContainer, StepOf } from './releases/release.ts'
import { factsOfStep } from './steps/step-facts.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

type Switched = Pick<StartedContainer, 'hostPort' | 'hostAddress'> & Partial<Pick<StartedContainer, 'bootId'>>
type Place = Pick<Route, 'address' | 'port'>

/**
 * The address of an application follows its container, while the operation that moves it goes on. Programs without a port have none.
 * Host names and addresses are those of the rows, whatever the input says.
 */
export function edgeActivities(edge: Edge, db: Db, { appsDomain, machine }: { appsDomain: string; machine: Machine }) {
  const hostOf = (subdomain: string) => `${subdomain}.${appsDomain}`

  /** Null when there is nothing to route: no address, the application is gone, or its operation has ended. Rejects with ClaimLost. */
  async function routed(asked: StepOf): Promise<AppFacts | null> {
    const { app, running } = await factsOfStep(db, asked)
    return running ? app : null
  }

  /** Looks again after it: a boot that has begun meanwhile has held the route, which must not be undone. */
  async function setRoute(host: string, appId: string, placeNow: () => Promise<Place>) {
    let set: Place | null = null
    for (let place = await placeNow(); !same(place, set); place = await placeNow()) {
      await edge.setRoute({ host, appId, ...place })
      set = place
    }
  }

  /** Port 0 = nowhere: the lane may have been told of this port before its host was started anew, and now it may be anybody's. */
  async function placeOf(appId: string, app: AppFacts, started: Switched): Promise<Place> {
    const address = addressOf(app, started)
    const host = await findBootOfApp(db, appId)
    if (host && isBootOutdated(host, machine)) return { address, port: 0 }
    if (started.bootId === undefined) return servingPlace(appId, address)
    return { address, port: !host?.boot_id || host.boot_id === started.bootId ? (started.hostPort ?? 0) : 0 }
  }

  async function servingPlace(appId: string, otherwise: string): Promise<Place> {
    const [serving] = await listServingApps(db, appId)
    return serving ? { address: serving.address, port: serving.host_port } : { address: otherwise, port: 0 }
  }

  return {
    /** Sends requests to a container that was started; where no boot is told, to the version that its row says serves. */
    async switchRoute(asked: StepOf, started: Switched): Promise<void> {
      if (started.hostPort === null) return
      const app = await routed(asked)
      if (app?.subdomain) await setRoute(hostOf(app.subdomain), asked.appId, () => placeOf(asked.appId, app, started))
    },

    /** Sends requests to what its row says serves, also after the operation has ended. An application that is gone is success. */
    async routeStands({ appId }: StepOf): Promise<void> {
      const [serving] = await listServingApps(db, appId)
      if (!serving) return
      await setRoute(hostOf(serving.subdomain), appId, async () => {
        const host = await findBootOfApp(db, appId)
        if (host && isBootOutdated(host, machine)) return { address: serving.address, port: 0 }
        return servingPlace(appId, serving.address)
      })
    },

    async removeRoute(asked: StepOf): Promise<void> {
      const app = await routed(asked)
      if (app?.subdomain) await edge.removeRoute(hostOf(app.subdomain))
    },
  }
}

/** Where a host has published a container: at the application's own address, or at its one for all, as older versions did. */
function addressOf({ hostAddress, uid }: AppFacts, started: Switched): string {
  const own = ownAddress(hostAddress, uid)
  return started.hostAddress === own ? own : hostAddress
}

const same = (a: Place, b: Place | null): boolean => a.address === b?.address && a.port === b.port
