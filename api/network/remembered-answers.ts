import { Busy, rememberedAnswers } from '../../policy/network/analytics-terms.ts'

interface Remembered {
  text: string
  at: number
}

/** An answer as JSON; `cachedAt` is null for one that was computed now. */
export interface GivenAnswer {
  text: string
  cachedAt: Date | null
}

/**
 * Remembers answers of this process as JSON: recent ones are given again at once, and older ones while the engine is busy. Callers of one
 * key share a computation.
 */
export class RememberedAnswers {
  readonly #answers = new Map<string, Remembered>()
  readonly #running = new Map<string, Promise<string>>()
  readonly #now: () => number
  readonly #maxBytes: number
  #bytes = 0

  constructor({
    now = Date.now,
    maxBytes = rememberedAnswers.maxBytes,
  }: { now?: () => number; maxBytes?: number } = {}) {
    this.#now = now
    this.#maxBytes = maxBytes
  }

  /** Rejects as `compute` does, but with Busy only where no answer is remembered. */
  async of(key: string, compute: () => Promise<unknown>): Promise<GivenAnswer> {
    const present = this.#answers.get(key)
    if (present && this.#isYounger(present, rememberedAnswers.freshSeconds)) return again(present)
    const running = this.#running.get(key) ?? this.#compute(key, compute)
    try {
      return { text: await running, cachedAt: null }
    } catch (error) {
      const last = this.#answers.get(key)
      if (error instanceof Busy && last && this.#isYounger(last, rememberedAnswers.busySeconds)) return again(last)
      throw error
    }
  }

  #compute(key: string, compute: () => Promise<unknown>): Promise<string> {
    const running = compute()
      .then(answer => {
        const text = JSON.stringify(answer)
        this.#remember(key, { text, at: this.#now() })
        return text
      })
      .finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return running
  }

  #remember(key: string, answer: Remembered): void {
    this.#forget(key)
    this.#answers.set(key, answer)
    this.#bytes += sizeOf(answer)
    // The oldest come first. A larger one than all together may be is not remembered either.
    for (const [oldest, entry] of this.#answers) {
      if (this.#bytes <= this.#maxBytes && this.#isYounger(entry, rememberedAnswers.busySeconds)) break
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    const answer = this.#answers.get(key)
    if (answer) this.#bytes -= sizeOf(answer)
    this.#answers.delete(key)
  }

  #isYounger({ at }: Remembered, seconds: number): boolean {
    return this.#now() - at < seconds * 1000
  }
}

const again = ({ text, at }: Remembered): GivenAnswer => ({ text, cachedAt: new Date(at) })

/** A text takes up to two bytes for each character. */
const sizeOf = ({ text }: Remembered): number => 2 * text.length
