export interface CircuitBreakerOptions {
  /** Failures in a row after which calls are skipped. */
  failures: number
  /** For how long, in milliseconds, until one call is let through as a trial. */
  pauseMs: number
  /** Milliseconds of a clock that never goes back. */
  now?: () => number
}

/** What a call reports; only its first report of an end counts. */
export interface BreakerCall {
  /** The call has made progress: a trial that will take long lets the others through. Not an end. */
  progress(): void
  succeed(): void
  /** `isOfSubject`: the call itself may be the reason, so that failures of one subject alone, however many, skip no calls. */
  fail(isOfSubject: boolean): void
  /** The call ended without a verdict. */
  abandon(): void
}

/**
 * Skips calls to a system that keeps failing (the breaker is open), and finds out with one call at a time whether it works again
 * (half-open). No subject can keep it open for the others: after a failed trial of one, another subject has the next trial at once.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  readonly #now: () => number
  #failures = 0
  /** Subjects of the failures in a row; a symbol for a failure that no subject can have caused. */
  readonly #causes = new Set<unknown>()
  /** Open until then; null = closed. */
  #openUntil: number | null = null
  #trial: { call: BreakerCall; since: number; isFirst: boolean } | null = null
  /** The only subject whose trial has failed since the last pause, for a reason that may be its own: anyone else may try at once. */
  #suspect: { subject: unknown } | null = null
  /** Counts changes of state: calls from before one say nothing about the time after it. */
  #generation = 0

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Whether a call of this subject would be let through now. */
  letsThrough(subject: unknown): boolean {
    if (this.#openUntil === null) return true
    const now = this.#now()
    // A trial that takes long keeps the others waiting no longer than a pause.
    if (this.#trial && now < this.#trial.since + this.#options.pauseMs) return false
    if (now >= this.#openUntil) return true
    return this.#suspect !== null && this.#suspect.subject !== subject
  }

  /** Begins a call, which must report its end; null when it is skipped. */
  enter(subject: unknown): BreakerCall | null {
    if (!this.letsThrough(subject)) return null
    let generation = this.#generation
    let ended = false
    const isTrial = () => this.#trial?.call === call
    const end = (then: () => void) => {
      if (ended) return
      ended = true
      if (isTrial() || generation === this.#generation) then()
      if (isTrial()) this.#trial = null
    }
    const call: BreakerCall = {
      progress: () => {
        if (ended || !isTrial()) return
        this.#close(this.#options.failures - 1)
        this.#trial = null
        generation = this.#generation
      },
      succeed: () => end(() => this.#close(0)),
      fail: isOfSubject =>
        end(() => {
          if (isTrial()) this.#suspect = isOfSubject && this.#trial?.isFirst ? { subject } : null
          this.#count(isOfSubject ? subject : Symbol('nobody'), isTrial())
        }),
      abandon: () => end(() => {}),
    }
    if (this.#openUntil !== null) {
      const since = this.#now()
      this.#trial = { call, since, isFirst: since >= this.#openUntil }
    }
    return call
  }

  #close(failures: number): void {
    if (this.#openUntil !== null) this.#generation++
    this.#openUntil = null
    this.#suspect = null
    this.#failures = failures
    if (failures === 0) this.#causes.clear()
  }

  #count(cause: unknown, isTrial: boolean): void {
    this.#failures++
    if (this.#causes.size < 2) this.#causes.add(cause)
    if (!isTrial && (this.#failures < this.#options.failures || this.#causes.size < 2)) return
    this.#openUntil = this.#now() + this.#options.pauseMs
    this.#generation++
  }
}
