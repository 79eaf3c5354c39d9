import { changesSince } from '../../db/apps/app-changes.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { type ComparisonOptions, reconcile, reconcileSome } from './host-comparison.ts'

export interface RoundsOptions extends ComparisonOptions {
  /** How often everything is compared, whether it has changed or not. */
  everythingSeconds?: number
  /** Milliseconds of a clock that only goes forward. */
  monotonic?: () => number
}

/**
 * Rounds of the host watch. One looks at applications with an event of the engine or a changed row since the last one, and at those
 * that were not as they should be. Everything is compared first, then once a minute, in a new boot of the host, when the database is
 * another one or was away for long, and as long as the engine's events are not followed.
 */
export class HostRounds {
  readonly #options: RoundsOptions
  readonly #now: () => number
  #pending = new Set<string>()
  #follows = false
  #mark: string | null = null
  #bootId: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY

  constructor(options: RoundsOptions) {
    this.#options = { failing: new Set(), ...options }
    this.#now = options.monotonic ?? (() => performance.now())
  }

  /** The next round looks at this application. */
  see(appId: string): void {
    this.#pending.add(appId)
  }

  /** The next round looks at everything. */
  seeAll(): void {
    this.#comparedAt = Number.NEGATIVE_INFINITY
  }

  /** Events of the engine are followed from now on, or no more. What happened in between has no event. */
  follow(follows: boolean): void {
    this.#follows = follows
    this.seeAll()
  }

  /** One round; resolves to whether everything was compared. Rejects when the engine or Postgres is away. */
  async round(): Promise<boolean> {
    const { db, hostId, boot } = this.#options
    const began = this.#now()
    const bootId = await boot.settle()
    const { mark, changed } = await changesSince(db, this.#mark, hostId)
    for (const { id } of changed ?? []) this.#pending.add(id)
    const some = changed && this.#follows && bootId === this.#bootId && !this.#isTime(began)
    const ids = this.#pending
    this.#pending = new Set() // an event during the round belongs to the next one
    try {
      for (const id of some ? await this.#some(ids) : await this.#everything(began)) this.#pending.add(id)
    } catch (error) {
      for (const id of ids) this.#pending.add(id)
      throw error
    }
    this.#mark = mark
    this.#bootId = bootId
    return !some
  }

  #isTime(now: number): boolean {
    return now - this.#comparedAt >= (this.#options.everythingSeconds ?? roundSeconds.everything) * 1000
  }

  async #some(ids: ReadonlySet<string>): Promise<Set<string>> {
    const { unsettled, strangers } = await reconcileSome(this.#options, ids)
    if (strangers) this.seeAll()
    return unsettled
  }

  async #everything(began: number): Promise<Set<string>> {
    this.#comparedAt = began // the next one may be requested while this one goes on
    try {
      return await reconcile(this.#options)
    } catch (error) {
      this.seeAll()
      throw error
    }
  }
}
