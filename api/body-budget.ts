/** Bytes of bodies that a process holds in memory at once, so that large ones cannot add up to its end. */
export class BodyBudget {
  #left: number

  constructor(bytes: number) {
    this.#left = bytes
  }

  /** Runs `work` with so many bytes set aside; undefined at once when they are not to be had. */
  async with<T>(bytes: number, work: () => Promise<T>): Promise<T | undefined> {
    if (bytes > this.#left) return undefined
    this.#left -= bytes
    try {
      return await work()
    } finally {
      this.#left += bytes
    }
  }
}
