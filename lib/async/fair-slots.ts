export interface FairSlotsTerms {
  /** How many are inside at the same time. */
  atOnce: number
  /** How many of one subject; as many as there are places when left out. */
  perSubject?: number
}

/**
 * Lets a fixed number in at once, and of each subject a fixed number. Those who wait are let in subject by subject in turn, and within
 * one in their order: a subject with a long queue waits for itself.
 */
export class FairSlots {
  readonly #atOnce: number
  readonly #perSubject: number
  /** How many are inside, by subject. */
  readonly #inside = new Map<string, number>()
  readonly #waiting = new Map<string, Set<() => void>>()
  /** When a subject that waits or is inside had its last turn: whose was longest ago comes next. */
  readonly #turns = new Map<string, number>()
  #turn = 0
  #taken = 0

  constructor({ atOnce, perSubject = atOnce }: FairSlotsTerms) {
    this.#atOnce = atOnce
    this.#perSubject = perSubject
  }

  /** Resolves to the way out, or to null when `waitMs` passed without a place. */
  enter(subject: string, waitMs = Number.POSITIVE_INFINITY): Promise<(() => void) | null> {
    return new Promise(resolve => {
      const leaveQueue = this.#queue(subject, wayOut => {
        clearTimeout(timer)
        resolve(wayOut)
      })
      const giveUp = () => {
        leaveQueue()
        resolve(null)
      }
      const timer = Number.isFinite(waitMs) ? setTimeout(giveUp, waitMs) : undefined
      this.#letIn()
    })
  }

  /** True when the subject has as many inside as it may: it waits for itself, and not for others. */
  isFull(subject: string): boolean {
    return (this.#inside.get(subject) ?? 0) >= this.#perSubject
  }

  /** As `enter`, for as long as the signal has not aborted; rejects with its reason. */
  enterUntil(subject: string, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const leaveQueue = this.#queue(subject, wayOut => {
        signal.removeEventListener('abort', giveUp)
        resolve(wayOut)
      })
      const giveUp = () => {
        leaveQueue()
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#letIn()
    })
  }

  /** Returns how to leave the queue. */
  #queue(subject: string, letIn: (wayOut: () => void) => void): () => void {
    const go = () => letIn(this.#wayOut(subject))
    // Who comes anew stands behind all who wait already, but before whoever had the last turn.
    if (!this.#turns.has(subject)) this.#turns.set(subject, this.#turn - 0.5)
    this.#waiting.set(subject, (this.#waiting.get(subject) ?? new Set()).add(go))
    return () => {
      this.#drop(subject, go)
      this.#forget(subject)
    }
  }

  #letIn(): void {
    while (this.#taken < this.#atOnce) {
      const next = this.#next()
      if (!next) return
      const { subject, go } = next
      this.#taken++
      this.#turns.set(subject, ++this.#turn)
      this.#inside.set(subject, (this.#inside.get(subject) ?? 0) + 1)
      this.#drop(subject, go)
      go()
    }
  }

  #next(): { subject: string; go: () => void } | undefined {
    let next: { subject: string; go: () => void } | undefined
    let longestAgo = Number.POSITIVE_INFINITY
    for (const [subject, [go]] of this.#waiting) {
      const turn = this.#turns.get(subject) ?? 0
      if (!go || turn >= longestAgo || (this.#inside.get(subject) ?? 0) >= this.#perSubject) continue
      next = { subject, go }
      longestAgo = turn
    }
    return next
  }

  #drop(subject: string, go: () => void): void {
    const waiting = this.#waiting.get(subject)
    waiting?.delete(go)
    if (waiting?.size === 0) this.#waiting.delete(subject)
  }

  /** To be called once; more often does no harm. */
  #wayOut(subject: string): () => void {
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      this.#taken--
      const left = this.#inside.get(subject)! - 1
      left > 0 ? this.#inside.set(subject, left) : this.#inside.delete(subject)
      this.#letIn()
      this.#forget(subject)
    }
  }

  #forget(subject: string): void {
    if (!this.#inside.has(subject) && !this.#waiting.has(subject)) this.#turns.delete(subject)
  }
}
