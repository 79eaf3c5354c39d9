/**
 * Pause after a job until a spare is started for the next one, in ms. Longer than most deploys take: a child that starts in the middle of
 * one takes CPU time from the container that it waits for, at the lowest priority too (measured).
 */
export const spareAfterMs = 1500

/** A child without a job. */
interface WaitingChild {
  /** A spare does not keep this process alive; a working child does. */
  hold(isWorking: boolean): this
  /** Whether it still waits for its job. */
  readonly isAlive: boolean
  end(): void
}

/**
 * Keeps one child ready: to start a process takes about 50 ms of CPU, which a job then does not wait for. A spare ends with this process,
 * as its channel closes.
 */
export class Spare<Child extends WaitingChild> {
  readonly #start: () => Child
  #child: Child | null = null
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(start: () => Child) {
    this.#start = start
  }

  /** Null when there is none, or it has died. */
  take(): Child | null {
    const child = this.#child
    this.#child = null
    return child?.isAlive ? child.hold(true) : null
  }

  /** Starts a spare after a pause. */
  prepare(afterMs: number): void {
    // A pause that has begun is not prolonged: under steady load there would never be a spare.
    if (this.#isClosed || this.#child?.isAlive || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      try {
        this.#child = this.#start().hold(false)
      } catch {
        // The system has no room for another process; a job then starts its own, or reports that.
      }
    }, afterMs).unref()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#child?.end()
    this.#child = null
  }
}
