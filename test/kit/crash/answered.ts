/**
 * The last answers that a client got about each thing, each changed by one client at a time: what it is according to the last
 * answer, and what a change that was never answered may have made of it. Null = it is not there.
 */
export class Answered<T> {
  readonly #known = new Map<string, T | null>()
  readonly #open = new Map<string, T | null>()
  /** Makes a change; `act` resolves to whether it was answered as done. An answer that never comes leaves both possible. */
  async change(name: string, to: T | null, act: () => Promise<boolean>): Promise<void> {
    this.#open.set(name, to)
    if (!(await act())) return
    this.#known.set(name, to)
    this.#open.delete(name)
  }

  names(): string[] {
    return [...this.#known.keys()]
  }

  last(name: string): T | null | undefined {
    return this.#known.get(name)
  }

  /** Whether this is what was answered, or what was requested and not answered. */
  allows(name: string, seen: T | null, equal: (one: T, other: T) => boolean): boolean {
    const like = (wanted: T | null | undefined) =>
      wanted !== undefined && (wanted === null || seen === null ? wanted === seen : equal(wanted, seen))
    return like(this.#known.get(name)) || (this.#open.has(name) && like(this.#open.get(name)))
  }

  /** What was seen is what is there from now on. */
  settle(name: string, seen: T | null): void {
    this.#known.set(name, seen)
    this.#open.delete(name)
  }
}
