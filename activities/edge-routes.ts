import { listServingApps, type ServingApp } from '../db/apps/apps.ts'
import { readCacheVersion } from '../db/apps/cache-versions.ts'
import type { Db } from '../db/database.ts'
import { findBootOfApp, isBootOutdated } from '../db/hosts/host-boots.ts'
import type { AppFacts } from '../db/operations/operation-facts.ts'
import type { Machine } from '../lib/machine.ts'
import { ownAddress } from '../policy/apps/published-address.ts'
import { routeAccount } from '../policy/edge/route-account.ts'
import { routeVersion } from '../policy/edge/route-version.ts'
import type { Edge, Route } from './edge/port.ts'
import type { StartedContainer, StepOf } from './releases/release.ts'
import { factsOfStep } from './steps/step-facts.ts'

export type EdgeActivities = ReturnType<typeof edgeActivities>

type Switched = Pick<StartedContainer, 'hostPort' | 'hostAddress'> & Partial<Pick<StartedContainer, 'bootId'>>
type Place = Required<Pick<Route, 'address' | 'port' | 'version'>>
type Named = Required<Pick<Route, 'host' | 'appId' | 'account'>>

/**
 * Routes follow the containers of applications while an operation moves them. Programs without a port have none.
 * Host names and addresses come from the rows, never from the input.
 */
export function edgeActivities(edge: Edge, db: Db, { appsDomain, machine }: { appsDomain: string; machine: Machine }) {
  const hostOf = (subdomain: string) => `${subdomain}.${appsDomain}`

  /** Null when there is nothing to route: the application is deleted, or its operation has ended. Rejects with ClaimLost. */
  async function appToRoute(input: StepOf): Promise<(AppFacts & { release: number; ownerId: string }) | null> {
    const { app, deployment, running, ownerId } = await factsOfStep(db, input)
    return running && app ? { ...app, ownerId, release: deployment?.release ?? app.release } : null
  }

  /**
   * Checks the place again afterwards: a boot that started meanwhile has set the route to port 0, and a purge has set its version: neither must
   * be undone. Resolves to false when it has set a place and there is none any more.
   */
  async function setRoute(named: Named, placeNow: () => Promise<Place | null>): Promise<boolean> {
    let current: Place | null = null
    let place = await placeNow()
    for (; place && !same(place, current); place = await placeNow()) {
      await edge.setRoute({ ...named, ...place })
      current = place
    }
    return place !== null || current === null
  }

  /** Sets the route to the version that serves by its row; false when none does. */
  async function setServing(appId: string): Promise<boolean> {
    const [serving] = await listServingApps(db, appId)
    if (!serving) return false
    const named = { host: hostOf(serving.subdomain), appId, account: routeAccount(serving.owner_id) }
    return setRoute(named, async () => {
      const nowhere = { ...placeIn(serving), port: 0 }
      const host = await findBootOfApp(db, appId)
      return host && isBootOutdated(host, machine) ? nowhere : servingPlace(appId, nowhere)
    })
  }

  /** Port 0 = nowhere: the lane may know this port from before its host restarted, and it may be another application's now. */
  async function placeOf(appId: string, app: AppFacts, started: Switched): Promise<Place> {
    const nowhere = { address: addressOf(app, started), port: 0 }
    const [cacheVersion, host] = await Promise.all([readCacheVersion(db, appId), findBootOfApp(db, appId)])
    const version = routeVersion({ release: app.release, cacheVersion })
    if (host && isBootOutdated(host, machine)) return { ...nowhere, version }
    if (started.bootId === undefined) return servingPlace(appId, { ...nowhere, version })
    const isOfThisBoot = !host?.boot_id || host.boot_id === started.bootId
    return { ...nowhere, version, port: isOfThisBoot ? (started.hostPort ?? 0) : 0 }
  }

  async function servingPlace(appId: string, otherwise: Place): Promise<Place> {
    const [serving] = await listServingApps(db, appId)
    return serving ? placeIn(serving) : otherwise
  }

  return {
    /** Sends requests to a container that was started or, when its boot is unknown, to the version that serves by its row. */
    async switchRoute(input: StepOf, started: Switched): Promise<void> {
      if (started.hostPort === null) return
      const { appId } = input
      const first = await appToRoute(input)
      if (!first?.subdomain) return
      const host = hostOf(first.subdomain)
      let lost: unknown = null
      const isOurs = await setRoute({ host, appId, account: routeAccount(first.ownerId) }, async () => {
        const app = await appToRoute(input).catch(error => {
          lost = error
          return null
        })
        return app && placeOf(appId, app, started)
      })
      // Its operation has ended since: an attempt that was suspended has just set a route of the past.
      if (!isOurs && !(await setServing(appId))) await edge.removeRoute(host, { appId })
      if (lost) throw lost
    },

    /** Sends requests to the version that serves by its row, even after the operation has ended. A deleted application is success. */
    async routeStands({ appId }: StepOf): Promise<void> {
      await setServing(appId)
    },

    async removeRoute(input: StepOf): Promise<void> {
      const app = await appToRoute(input)
      if (app?.subdomain) await edge.removeRoute(hostOf(app.subdomain), { appId: input.appId })
    },
  }
}

/** Where a host has published a container: at the application's own address, or at the shared one of older versions. */
function addressOf({ hostAddress, uid }: AppFacts, started: Switched): string {
  const own = ownAddress(hostAddress, uid)
  return started.hostAddress === own ? own : hostAddress
}

const placeIn = (serving: ServingApp): Place => ({
  address: serving.address,
  port: serving.host_port,
  version: routeVersion({ release: serving.release, cacheVersion: serving.cache_version }),
})

const same = (a: Place, b: Place | null): boolean =>
  a.address === b?.address && a.port === b.port && a.version === b.version
