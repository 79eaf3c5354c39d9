import type { UseCounts } from './job.ts'

/** Max steps at a time: the counts of a step that was given up are never requested. */
const maxSteps = 1000

/** Counts of each step: its container reports its address with the step's token, which no other container has. */
export class Uses {
  readonly #byToken = new Map<string, UseCounts>()
  readonly #byAddress = new Map<string, UseCounts>()

  begin(token: string): void {
    this.#byToken.set(token, { requests: 0, troubles: 0, passedOn: 0 })
    const [oldest] = this.#byToken.keys()
    if (this.#byToken.size > maxSteps) this.#byToken.delete(oldest!)
  }

  /** A container has its address to itself until another one registers it. */
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
