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

  /** The cached answer of this key; `compute` is called when there is none, and its errors are not cached. */
  of(key: string, compute: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const cached = this.#answers.get(key)
    if (cached && cached.until > now) return cached.answer
    const entry = { until: now + this.#seconds * 1000, answer: compute() }
    this.#answers.delete(key) // a recomputed key becomes the youngest
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
