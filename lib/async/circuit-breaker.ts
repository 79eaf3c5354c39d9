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
  /** The call goes well so far: a trial that will take long lets the others through. Not an end. */
  goesWell(): void
  succeed(): void
  /** `cause`: what else could be the reason. Failures for one cause alone, however many, skip no calls. */
  fail(cause: unknown): void
  /** The call ended without a verdict. */
  abandon(): void
}

/** Skips calls to a system that keeps failing, and finds out with one call at a time whether it works again. */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  readonly #now: () => number
  #failures = 0
  readonly #causes = new Set<unknown>()
  /** Calls are skipped until then; null: they are not. */
  #skippedUntil: number | null = null
  #trial: BreakerCall | null = null
  /** Counts changes of state: calls from before one say nothing about the time after it. */
  #era = 0

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Whether a call would be let through now. */
  get letsThrough(): boolean {
    return this.#skippedUntil === null || (this.#trial === null && this.#now() >= this.#skippedUntil)
  }

  /** Begins a call, which must report its end; null when it is skipped. */
  enter(): BreakerCall | null {
    if (!this.letsThrough) return null
    let era = this.#era
    let ended = false
    const isTrial = () => this.#trial === call
    const end = (then: () => void) => {
      if (ended) return
      ended = true
      if (isTrial() || era === this.#era) then()
      if (isTrial()) this.#trial = null
    }
    const call: BreakerCall = {
      goesWell: () => {
        if (ended || !isTrial()) return
        this.#letThrough(this.#options.failures - 1)
        this.#trial = null
        era = this.#era
      },
      succeed: () => end(() => this.#letThrough(0)),
      fail: cause => end(() => this.#count(cause, isTrial())),
      abandon: () => end(() => {}),
    }
    if (this.#skippedUntil !== null) this.#trial = call
    return call
  }

  #letThrough(failures: number): void {
    if (this.#skippedUntil !== null) this.#era++
    this.#skippedUntil = null
    this.#failures = failures
    if (failures === 0) this.#causes.clear()
  }

  #count(cause: unknown, isTrial: boolean): void {
    this.#failures++
    if (this.#causes.size < 2) this.#causes.add(cause)
    if (!isTrial && (this.#failures < this.#options.failures || this.#causes.size < 2)) return
    this.#skippedUntil = this.#now() + this.#options.pauseMs
    this.#era++
  }
}
