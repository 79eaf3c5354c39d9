import { changesSince } from '../../db/apps/app-changes.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { type ComparisonOptions, reconcile, reconcileSome } from './host-comparison.ts'

export interface RoundsOptions extends ComparisonOptions {
  /** How often everything is compared, changed or not. */
  everythingSeconds?: number
  /** Milliseconds of a monotonic clock. */
  now?: () => number
}

/**
 * Rounds of the host watch. A round checks the applications with an event of the engine or a changed row since the previous one, and
 * those that were not in their desired state. Everything is compared in the first round, then once a minute, in a new boot of the host,
 * when the database was replaced or was down for long, and while the engine's events are not followed.
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
    this.#now = options.now ?? (() => performance.now())
  }

  /** Makes the next round check this application. */
  see(appId: string): void {
    this.#pending.add(appId)
  }

  /** Makes the next round compare everything. */
  seeAll(): void {
    this.#comparedAt = Number.NEGATIVE_INFINITY
  }

  /** Records that the engine's events are followed from now on, or no longer. Changes in between have no event. */
  follow(follows: boolean): void {
    this.#follows = follows
    this.seeAll()
  }

  /** Runs one round; resolves to whether everything was compared. Rejects when the engine or Postgres is down. */
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
    const { unsettled, hasStrays } = await reconcileSome(this.#options, ids)
    if (hasStrays) this.seeAll()
    return unsettled
  }

  async #everything(began: number): Promise<Set<string>> {
    this.#comparedAt = began // the next one may be requested while this one runs
    try {
      return await reconcile(this.#options)
    } catch (error) {
      this.seeAll()
      throw error
    }
  }
}
