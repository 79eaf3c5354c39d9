export interface FairSlotsOptions {
  /** Number of slots. */
  atOnce: number
  /**
   * Max slots per subject; default: all. `spare`: a subject with slots gets another one only while more are free than it has, so that
   * one subject uses half of them, two use two thirds, and there is a slot for the next subject.
   */
  perSubject?: number | 'spare'
}

/**
 * A semaphore with a fixed number of slots, and a max number per subject. Subjects that wait alternate (round robin), and each is
 * served in the order of its calls: a subject with a long queue delays only itself.
 */
export class FairSlots {
  readonly #atOnce: number
  readonly #perSubject: number | 'spare'
  /** Slots in use, by subject. */
  readonly #used = new Map<string, number>()
  readonly #waiting = new Map<string, Set<() => void>>()
  /** When each active subject last got a slot, as a counter: the smallest comes next. */
  readonly #turns = new Map<string, number>()
  #turn = 0
  #taken = 0

  constructor({ atOnce, perSubject = atOnce }: FairSlotsOptions) {
    this.#atOnce = atOnce
    this.#perSubject = perSubject
  }

  /** Resolves to a function that releases the slot, or to null when none was free within `waitMs`. */
  enter(subject: string, waitMs = Number.POSITIVE_INFINITY): Promise<(() => void) | null> {
    return new Promise(resolve => {
      const leaveQueue = this.#queue(subject, release => {
        clearTimeout(timer)
        resolve(release)
      })
      const giveUp = () => {
        leaveQueue()
        resolve(null)
      }
      const timer = Number.isFinite(waitMs) ? setTimeout(giveUp, waitMs) : undefined
      this.#assign()
    })
  }

  /** Returns a function that releases the slot, or null when none is free for this subject. Passes none by that waits: for it none is free. */
  enterNow(subject: string): (() => void) | null {
    if (this.#taken >= this.#atOnce || this.isFull(subject)) return null
    this.#take(subject)
    return this.#release(subject)
  }

  /** Whether the subject uses its max number of slots: it waits for itself, and not for others. */
  isFull(subject: string): boolean {
    const used = this.#used.get(subject) ?? 0
    if (this.#perSubject === 'spare') return used > 0 && used >= this.#atOnce - this.#taken
    return used >= this.#perSubject
  }

  /** Like `enter`, until the signal aborts; then rejects with its reason. */
  enterUntil(subject: string, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const leaveQueue = this.#queue(subject, release => {
        signal.removeEventListener('abort', giveUp)
        resolve(release)
      })
      const giveUp = () => {
        leaveQueue()
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#assign()
    })
  }

  /** Returns a function that leaves the queue. */
  #queue(subject: string, onSlot: (release: () => void) => void): () => void {
    const go = () => onSlot(this.#release(subject))
    // A new subject comes after all that wait already, but before the one that got the last slot.
    if (!this.#turns.has(subject)) this.#turns.set(subject, this.#turn - 0.5)
    this.#waiting.set(subject, (this.#waiting.get(subject) ?? new Set()).add(go))
    return () => {
      this.#drop(subject, go)
      this.#forget(subject)
    }
  }

  #assign(): void {
    while (this.#taken < this.#atOnce) {
      const next = this.#next()
      if (!next) return
      const { subject, go } = next
      this.#take(subject)
      this.#drop(subject, go)
      go()
    }
  }

  #take(subject: string): void {
    this.#taken++
    this.#turns.set(subject, ++this.#turn)
    this.#used.set(subject, (this.#used.get(subject) ?? 0) + 1)
  }

  #next(): { subject: string; go: () => void } | undefined {
    let next: { subject: string; go: () => void } | undefined
    let minTurn = Number.POSITIVE_INFINITY
    for (const [subject, [go]] of this.#waiting) {
      const turn = this.#turns.get(subject) ?? 0
      if (!go || turn >= minTurn || this.isFull(subject)) continue
      next = { subject, go }
      minTurn = turn
    }
    return next
  }

  #drop(subject: string, go: () => void): void {
    const waiting = this.#waiting.get(subject)
    waiting?.delete(go)
    if (waiting?.size === 0) this.#waiting.delete(subject)
  }

  /** Further calls of the returned function have no effect. */
  #release(subject: string): () => void {
    let released = false
    return () => {
      if (released) return
      released = true
      this.#taken--
      const left = this.#used.get(subject)! - 1
      left > 0 ? this.#used.set(subject, left) : this.#used.delete(subject)
      this.#assign()
      this.#forget(subject)
    }
  }

  #forget(subject: string): void {
    if (!this.#used.has(subject) && !this.#waiting.has(subject)) this.#turns.delete(subject)
  }
}
