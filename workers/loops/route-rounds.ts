import { changesSince } from '../../db/apps/app-changes.ts'
import { findHostsOfApps, listUnroutedBoots, readHostsDigest, recordRoutedBoots } from '../../db/hosts/host-boots.ts'
import { switchingSubdomains } from '../../db/operations/operations.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { endedWithin } from '../../lib/async/timeout.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { EntryRefusal } from './reconcile-table.ts'
import { hostOf, type Round, syncRoutes, type Tables } from './route-table.ts'
import { syncSettings } from './settings-table.ts'

export interface RouteRoundsOptions extends Tables {
  everythingSeconds?: number
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

type Boots = Awaited<ReturnType<typeof listUnroutedBoots>>

/**
 * How long the routes of a proxy that has started wait for what should be there before them: names and certificates, and then what bounds
 * the requests of applications. Thousands of them take longer, and the routes of all applications must not.
 */
export const earlyMs = 2000

/** Above this number of names reading the whole table is faster. */
const maxNames = 200

/**
 * Rounds of the route keeper. The proxy stores the mark up to which its table is complete, so that a round reads only later changes,
 * whichever worker ran the previous round. Everything is compared first, then once a minute, and whenever the mark is not valid, because
 * the proxy was restarted or the database was replaced. A route that an operation switched and could not restore has no changed row: names
 * of switching operations are checked while they switch, and once afterwards. A host that moved or rebooted affects all its applications.
 */
export class RouteRounds {
  readonly #options: RouteRoundsOptions
  readonly #now: () => number
  #unsettled: readonly string[] = []
  /** Names of operations that were switching in the last complete round, or in one since. */
  #switched: readonly string[] = []
  #hosts: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY

  constructor(options: RouteRoundsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /**
   * Runs one round of routes and applications' settings; rejects when the proxy or Postgres is down. `whole` reports that everything was
   * compared. `edgeId`: of the proxy; null where it is of a version without one.
   */
  async round(): Promise<Round & { whole: boolean; refusedSettings: EntryRefusal[]; edgeId: string | null }> {
    const { db, edge } = this.#options
    const began = this.#now()
    const boots = await listUnroutedBoots(db)
    const hosts = await readHostsDigest(db)
    const switching = await this.#switchingNames()
    // Retained if the round fails: a proxy that hangs is the reason why a route was not restored.
    this.#switched = [...new Set([...this.#switched, ...switching])]
    const { id: edgeId, run, mark } = await edge.standing()
    const { mark: upto, changed } = await changesSince(db, mark)
    const names = changed && this.#names(changed)
    const fits = boots.length === 0 && hosts === this.#hosts && !this.#isTime(began)
    const some = fits && names && names.length <= maxNames ? names : undefined
    const early = mark === null ? syncSettings(this.#options, some).catch(ignoreError('tried again below')) : undefined
    if (early) await endedWithin(early, earlyMs)
    const [round, settings] = await allEnded([this.#setRoutes(boots, some), early])
    const refusedSettings = settings ?? (await syncSettings(this.#options, some))
    this.#unsettled = [...round.unsettled, ...refusedSettings.map(({ host }) => host)]
    this.#switched = switching
    if (!some) {
      this.#hosts = hosts
      this.#comparedAt = began
    }
    await edge.setMark(run, upto)
    return { ...round, whole: !some, refusedSettings, edgeId }
  }

  /** Whether the proxy has started since its table was complete. */
  async isNew(): Promise<boolean> {
    return (await this.#options.edge.standing()).mark === null
  }

  /** Hosts wait for routes only. */
  async #setRoutes(boots: Boots, some: readonly string[] | undefined): Promise<Round> {
    const round = await syncRoutes(this.#options, some)
    if (!some) await this.#releaseHosts(boots, round)
    return round
  }

  #isTime(now: number): boolean {
    return now - this.#comparedAt >= (this.#options.everythingSeconds ?? roundSeconds.everything) * 1000
  }

  async #switchingNames(): Promise<string[]> {
    return (await switchingSubdomains(this.#options.db)).map(subdomain => hostOf(subdomain, this.#options))
  }

  #names(changed: readonly { subdomain: string | null }[]): string[] {
    const hosts = changed.flatMap(({ subdomain }) => (subdomain === null ? [] : hostOf(subdomain, this.#options)))
    return [...new Set([...hosts, ...this.#switched, ...this.#unsettled])]
  }

  /** Releases hosts that wait in a new boot, except those with a route that could be neither set nor held: it may lead to a former port. */
  async #releaseHosts(boots: Boots, { refused }: Round): Promise<void> {
    const { db } = this.#options
    const misleading = refused.filter(({ leads }) => leads).map(({ appId }) => appId)
    const waiting = await findHostsOfApps(db, misleading)
    if (!waiting) return
    const routed = boots.filter(({ id }) => !waiting.has(id))
    await recordRoutedBoots(db, routed)
  }
}
