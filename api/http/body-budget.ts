import { type BodyBudgetTerms, freeBodyBytes } from '../../policy/body-budgets.ts'
import { ApiError } from '../../policy/errors.ts'

/**
 * Bytes of large bodies that a process holds in memory at once, so that they cannot add up to its end. They count as they arrive, for
 * a length that is only declared takes no memory.
 */
export class BodyBudget {
  readonly #terms: BodyBudgetTerms
  readonly #held = new Map<string, number>()
  #left: number

  constructor(terms: BodyBudgetTerms) {
    this.#terms = terms
    this.#left = terms.bytes
  }

  /** Opens the account of one body. `subjects` answer for it: its bytes count to the share of each. */
  charge(subjects: readonly string[]): BodyCharge {
    return new BodyCharge(bytes => this.#take(subjects, bytes))
  }

  /** A negative number gives back. False: not to be had, and nothing was taken. */
  #take(subjects: readonly string[], bytes: number): boolean {
    const held = (subject: string) => this.#held.get(subject) ?? 0
    if (bytes > 0 && bytes > this.#left) return false
    if (bytes > 0 && subjects.some(subject => held(subject) + bytes > this.#terms.share)) return false
    this.#left -= bytes
    for (const subject of subjects) {
      const now = held(subject) + bytes
      now > 0 ? this.#held.set(subject, now) : this.#held.delete(subject)
    }
    return true
  }
}

/** What one body holds of a budget. */
export class BodyCharge {
  readonly #take: (bytes: number) => boolean
  #arrived = 0
  #taken = 0

  constructor(take: (bytes: number) => boolean) {
    this.#take = take
  }

  /** Counts bytes that have arrived; the first megabyte is free. Throws UPLOAD_BUSY when there is no room for them. */
  add(bytes: number): void {
    this.#arrived += bytes
    const more = Math.max(0, this.#arrived - freeBodyBytes) - this.#taken
    if (more <= 0) return
    if (!this.#take(more)) throw new ApiError('UPLOAD_BUSY', busy, 5)
    this.#taken += more
  }

  /** Gives back all that it holds; more than once does no harm. */
  end(): void {
    if (this.#taken > 0) this.#take(-this.#taken)
    this.#arrived = 0
    this.#taken = 0
  }
}

const busy = 'Too many large bodies are being read. Try again in a moment.'
