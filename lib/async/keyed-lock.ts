import { ignoreError } from './ignore-error.ts'
/** Serializes work with the same key, in the order of the calls; other keys are not held up. */
export class KeyedLock {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Resolves to the outcome of the work, which starts once all earlier work with this key has ended, even if it failed. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#last.get(key) ?? Promise.resolve()
    const current = previous.catch(ignoreError('its own caller hears of it')).then(work)
    this.#last.set(key, current)
    try {
      return await current
    } finally {
      if (this.#last.get(key) === current) this.#last.delete(key)
    }
  }

  /** Whether work with this key runs or waits. */
  isHeld(key: string): boolean {
    return this.#last.has(key)
  }
}
