import type { UseCounts } from './job.ts'

/** Steps that are known at a time; those that were given up are never asked about. */
const most = 1000

/** What each step has had: its container says by the step's token, which nobody else knows, that it is at its address. */
export class Uses {
  readonly #byToken = new Map<string, UseCounts>()
  readonly #byAddress = new Map<string, UseCounts>()

  begin(token: string): void {
    this.#byToken.set(token, { requests: 0, troubles: 0, passedOn: 0 })
    const [oldest] = this.#byToken.keys()
    if (this.#byToken.size > most) this.#byToken.delete(oldest!)
  }

  /** A container has an address to itself until another one says that it is there. */
  arrive(token: string, address: string): void {
    const use = this.#byToken.get(token)
    if (!use) return
    use.requests++
    this.#byAddress.set(address, use)
  }

  /** Counts for whichever step is at the address. */
  count(what: keyof UseCounts, address: string): void {
    const use = this.#byAddress.get(address)
    if (use) use[what]++
  }

  /** What the step has had in all; null when it is not known. */
  end(token: string): UseCounts | null {
    const use = this.#byToken.get(token) ?? null
    this.#byToken.delete(token)
    return use
  }
}
