import { type BodyBudgetTerms, freeBodyBytes } from '../../policy/body-budgets.ts'
import { CodedError } from '../../policy/errors.ts'

/**
 * Bounds the bytes of all large bodies that a process holds in memory, so that together they cannot exhaust it. They count as they
 * arrive: a declared length takes no memory yet.
 */
export class BodyBudget {
  readonly #terms: BodyBudgetTerms
  readonly #held = new Map<string, number>()
  #left: number

  constructor(terms: BodyBudgetTerms) {
    this.#terms = terms
    this.#left = terms.bytes
  }

  /** Opens the charge of one body, whose bytes count against the share of each of the `subjects`. */
  charge(subjects: readonly string[]): BodyCharge {
    return new BodyCharge(bytes => this.#take(subjects, bytes))
  }

  /** A negative number gives back. False: there is no room, and nothing was taken. */
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

/** The bytes of a budget that one body holds. */
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
    if (!this.#take(more)) throw new CodedError('UPLOAD_BUSY', busy, 5)
    this.#taken += more
  }

  /** Gives everything back; may be called more than once. */
  end(): void {
    if (this.#taken > 0) this.#take(-this.#taken)
    this.#arrived = 0
    this.#taken = 0
  }
}

const busy = 'Too many large bodies are being read. Try again in a moment.'
