import { ignoreError } from './ignore-error.ts'
/** Runs works of the same key one at a time, in the order of their calls; other keys are not held up. */
export class KeyedLock {
  readonly #last = new Map<string, Promise<unknown>>()

  /** The outcome of the work, which begins once all that came before it with this key have ended, however they did. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const ahead = this.#last.get(key) ?? Promise.resolve()
    const mine = ahead.catch(ignoreError('its own caller hears of it')).then(work)
    this.#last.set(key, mine)
    try {
      return await mine
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
  }

  /** Whether a work of this key runs or waits. */
  isHeld(key: string): boolean {
    return this.#last.has(key)
  }
}
