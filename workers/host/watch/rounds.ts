import type { Boot } from '../../../activities/hosts/boot.ts'
import { roundSeconds } from '../../../policy/rounds.ts'

export interface RoundsOptions {
  boot: Boot
  /** How often everything is compared, changed or not. */
  everythingSeconds?: number | undefined
  /** Milliseconds of a monotonic clock. */
  now?: (() => number) | undefined
}

/** What a watch compares: rows of one table, and what the host has of them. */
export interface Compared {
  /** The ids of the rows that have changed since a mark; null = any may have. A null mark stands for a reader that knows nothing. */
  changes(mark: string | null): Promise<{ mark: string; changed: readonly { id: string }[] | null }>
  /** Compares these; resolves to those that the next round must check again, and whether it found strays. */
  some(ids: ReadonlySet<string>): Promise<{ unsettled: Set<string>; hasStrays: boolean }>
  /** Compares all, and deals with strays. */
  everything(): Promise<Set<string>>
}

/**
 * Rounds of a watch. A round checks what has an event of the engine or a changed row since the previous one, and what was not in its
 * desired state. Everything is compared in the first round, then once a minute, in a new boot of the host, when the database was
 * replaced or was down for long, and while the engine's events are not followed.
 */
export class Rounds {
  readonly #compared: Compared
  readonly #options: RoundsOptions
  readonly #now: () => number
  #pending = new Set<string>()
  #follows = false
  #mark: string | null = null
  #bootId: string | null = null
  #comparedAt = Number.NEGATIVE_INFINITY

  constructor(compared: Compared, options: RoundsOptions) {
    this.#compared = compared
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Makes the next round check this one. */
  see(id: string): void {
    this.#pending.add(id)
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
    const began = this.#now()
    const bootId = await this.#options.boot.settle()
    const { mark, changed } = await this.#compared.changes(this.#mark)
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
    const { unsettled, hasStrays } = await this.#compared.some(ids)
    if (hasStrays) this.seeAll()
    return unsettled
  }

  async #everything(began: number): Promise<Set<string>> {
    this.#comparedAt = began // the next one may be requested while this one runs
    try {
      return await this.#compared.everything()
    } catch (error) {
      this.seeAll()
      throw error
    }
  }
}
