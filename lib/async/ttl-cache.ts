/**
 * Caches answers in this process for `seconds`; concurrent callers share one computation. Beyond `maxEntries` the oldest answer is
 * dropped.
 */
export class TtlCache<T> {
  readonly #answers = new Map<string, { until: number; answer: Promise<T> }>()
  readonly #seconds: number
  readonly #maxEntries: number

  constructor(seconds: number, maxEntries = 1000) {
    this.#seconds = seconds
    this.#maxEntries = maxEntries
  }

  /** The answer of this key; `ask` computes it when there is none, and what it throws is not cached. */
  of(key: string, ask: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const known = this.#answers.get(key)
    if (known && known.until > now) return known.answer
    const entry = { until: now + this.#seconds * 1000, answer: ask() }
    this.#answers.delete(key) // a key that is computed anew is the youngest
    this.#answers.set(key, entry)
    entry.answer.catch(() => {
      if (this.#answers.get(key) === entry) this.#answers.delete(key)
    })
    const [oldest] = this.#answers.keys()
    if (oldest !== undefined && this.#answers.size > this.#maxEntries) this.#answers.delete(oldest)
    return entry.answer
  }

  delete(key: string): void {
    this.#answers.delete(key)
  }

  clear(): void {
    this.#answers.clear()
  }
}
