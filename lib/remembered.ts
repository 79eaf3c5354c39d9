const mostKept = 1000

/** Answers that are given again for a while, and worked out once however many ask at the same time. Of one process. */
export class Remembered<T> {
  readonly #answers = new Map<string, { until: number; answer: Promise<T> }>()
  readonly #seconds: number

  constructor(seconds: number) {
    this.#seconds = seconds
  }

  /** The answer of this name; `ask` works it out when there is none, and what it throws is not remembered. */
  of(name: string, ask: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const known = this.#answers.get(name)
    if (known && known.until > now) return known.answer
    const answer = ask()
    this.#answers.delete(name) // a name that is asked anew is the youngest
    this.#answers.set(name, { until: now + this.#seconds * 1000, answer })
    answer.catch(() => this.#answers.delete(name))
    const [oldest] = this.#answers.keys()
    if (oldest !== undefined && this.#answers.size > mostKept) this.#answers.delete(oldest)
    return answer
  }
}
