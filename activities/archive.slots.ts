/** Lets a fixed number in at once; the others wait in order, each as long as it likes. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves to the way out, or to null when `waitMs` passed without a free slot. */
  async enter(waitMs = Number.POSITIVE_INFINITY): Promise<(() => void) | null> {
    if (this.#free > 0) this.#free--
    else if (!(await this.#turn(waitMs))) return null
    return () => this.#leave()
  }

  #turn(waitMs: number): Promise<boolean> {
    return new Promise(resolve => {
      const timer = Number.isFinite(waitMs) ? setTimeout(giveUp, waitMs) : undefined
      const go = () => {
        clearTimeout(timer)
        resolve(true)
      }
      const waiting = this.#waiting
      function giveUp() {
        waiting.splice(waiting.indexOf(go), 1)
        resolve(false)
      }
      waiting.push(go)
    })
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
