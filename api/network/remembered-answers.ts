import { singleFlight } from '../../lib/async/single-flight.ts'
import { Busy, rememberedAnswers } from '../../policy/network/analytics-terms.ts'

interface Remembered {
  ownerId: string
  text: string
  at: number
}

/** An answer as JSON; `cachedAt` is null for one that was computed now. */
export interface GivenAnswer {
  text: string
  cachedAt: Date | null
}

/**
 * Remembers answers of this process as JSON: recent ones are given again immediately, and older ones while the engine is busy. Callers of one
 * key share a computation. Where all take too much memory, those of the owner with most of it are forgotten.
 */
export class RememberedAnswers {
  readonly #answers = new Map<string, Remembered>()
  readonly #shared = singleFlight<string>()
  readonly #now: () => number
  readonly #maxBytes: number
  readonly #bytes = new Map<string, number>()

  constructor({
    now = Date.now,
    maxBytes = rememberedAnswers.maxBytes,
  }: { now?: () => number; maxBytes?: number } = {}) {
    this.#now = now
    this.#maxBytes = maxBytes
  }

  /** Rejects as `compute` does, but with Busy only where no answer is remembered. */
  async of(ownerId: string, key: string, compute: () => Promise<unknown>): Promise<GivenAnswer> {
    const present = this.#answers.get(key)
    if (present && this.#isYounger(present, rememberedAnswers.freshSeconds)) return again(present)
    const running = this.#shared(key, () => this.#compute(ownerId, key, compute))
    try {
      return { text: await running, cachedAt: null }
    } catch (error) {
      const last = this.#answers.get(key)
      if (error instanceof Busy && last && this.#isYounger(last, rememberedAnswers.busySeconds)) return again(last)
      throw error
    }
  }

  async #compute(ownerId: string, key: string, compute: () => Promise<unknown>): Promise<string> {
    const text = JSON.stringify(await compute())
    this.#remember(key, { ownerId, text, at: this.#now() })
    return text
  }

  #remember(key: string, answer: Remembered): void {
    this.#forget(key)
    if (sizeOf(answer) > this.#maxBytes) return
    this.#answers.set(key, answer)
    this.#add(answer.ownerId, sizeOf(answer))
    // The oldest come first.
    for (const [oldest, entry] of this.#answers) {
      if (this.#isYounger(entry, rememberedAnswers.busySeconds)) break
      this.#forget(oldest)
    }
    while (this.#total() > this.#maxBytes) this.#forgetOldestOf(this.#largestOwner())
  }

  #forget(key: string): void {
    const answer = this.#answers.get(key)
    if (answer) this.#add(answer.ownerId, -sizeOf(answer))
    this.#answers.delete(key)
  }

  #forgetOldestOf(owner: string): void {
    const oldest = [...this.#answers].find(([, { ownerId }]) => ownerId === owner)
    if (oldest) this.#forget(oldest[0])
  }

  #largestOwner(): string {
    return [...this.#bytes].reduce((largest, other) => (other[1] > largest[1] ? other : largest))[0]
  }

  #total(): number {
    return [...this.#bytes.values()].reduce((sum, bytes) => sum + bytes, 0)
  }

  #add(ownerId: string, bytes: number): void {
    const sum = (this.#bytes.get(ownerId) ?? 0) + bytes
    if (sum > 0) this.#bytes.set(ownerId, sum)
    else this.#bytes.delete(ownerId)
  }

  #isYounger({ at }: Remembered, seconds: number): boolean {
    return this.#now() - at < seconds * 1000
  }
}

const again = ({ text, at }: Remembered): GivenAnswer => ({ text, cachedAt: new Date(at) })

/** A text takes up to two bytes for each character. */
const sizeOf = ({ text }: Remembered): number => 2 * text.length
