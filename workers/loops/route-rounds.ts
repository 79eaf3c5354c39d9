import { changesSince } from '../../db/apps/app-changes.ts'
import { findHostsOfApps, listUnroutedBoots, readHostsDigest, recordRoutedBoots } from '../../db/hosts/host-boots.ts'
import { switchingSubdomains } from '../../db/operations/operations.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { hostOf, type Round, syncRoutes, type Tables } from './route-table.ts'

export interface RouteRoundsOptions extends Tables {
  everythingSeconds?: number
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number
}

/** More names than these are looked for faster in the whole table. */
const maxNames = 200

/**
 * Rounds of the keeper of routes. The proxy holds the mark up to which its table is complete, so that a round reads only what has
 * changed since, whichever worker made the last one. Everything is compared first, then once a minute, and whenever the mark does not fit: the
 * proxy was started anew, or the database is another one. A route that an operation switched and could not put back has no changed row: names of
 * operations that switch are looked at as long as they do, and once more. A host that moved or started a boot concerns all of its applications.
 */
export class RouteRounds {
  readonly #options: RouteRoundsOptions
  readonly #now: () => number
  #unsettled: readonly string[] = []
  /** Names of operations that the last complete round, or one since, has seen switching. */
  #switched: readonly string[] = []
  #hosts: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY

  constructor(options: RouteRoundsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** One round; rejects when the proxy or Postgres is away. `whole`: everything was compared. */
  async round(): Promise<Round & { whole: boolean }> {
    const { db, edge } = this.#options
    const began = this.#now()
    const boots = await listUnroutedBoots(db)
    const hosts = await readHostsDigest(db)
    const switching = await this.#switchingNames()
    // Kept by a round that fails: a proxy that hangs is why a route was not put back.
    this.#switched = [...new Set([...this.#switched, ...switching])]
    const { run, mark } = await edge.standing()
    const { mark: upto, changed } = await changesSince(db, mark)
    const names = changed && this.#names(changed)
    const fits = boots.length === 0 && hosts === this.#hosts && !this.#isTime(began)
    const some = fits && names && names.length <= maxNames ? names : undefined
    const round = await syncRoutes(this.#options, some)
    this.#unsettled = round.unsettled
    this.#switched = switching
    if (!some) {
      await this.#tellHosts(boots, round)
      this.#hosts = hosts
      this.#comparedAt = began
    }
    await edge.setMark(run, upto)
    return { ...round, whole: !some }
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

  /** Hosts wait in a new boot, and wait on while a route to them could be neither set nor held: it may lead to a port of before. */
  async #tellHosts(boots: Awaited<ReturnType<typeof listUnroutedBoots>>, { refused }: Round): Promise<void> {
    const { db } = this.#options
    const misleading = refused.filter(({ leads }) => leads).map(({ appId }) => appId)
    const waiting = await findHostsOfApps(db, misleading)
    if (!waiting) return
    const routed = boots.filter(({ id }) => !waiting.has(id))
    await recordRoutedBoots(db, routed)
  }
}
