import { installConcurrency } from '../../policy/hosts/installs.ts'
import { packingSlots } from './slots.ts'

interface Waiter {
  account: string
  giveUp: AbortController
}

/** Results that wait to be stored, up to a maximum: beyond it the oldest one of the account with the most is given up. */
export class PackingQueue {
  /** How many were given up. */
  dropped = 0
  readonly #waiting = new Set<Waiter>()

  constructor(readonly max: number = installConcurrency.waiting) {}

  /** Resolves to a function that releases the slot. Rejects when it is given up, and with the reason of the signal. */
  async enter(account: string, signal: AbortSignal): Promise<() => void> {
    const waiter = { account, giveUp: new AbortController() }
    this.#waiting.add(waiter)
    if (this.#waiting.size > this.max) this.#dropOne()
    try {
      return await packingSlots.enterUntil(account, AbortSignal.any([signal, waiter.giveUp.signal]))
    } finally {
      this.#waiting.delete(waiter)
    }
  }

  #dropOne(): void {
    const counts = new Map<string, number>()
    for (const { account } of this.#waiting) counts.set(account, (counts.get(account) ?? 0) + 1)
    const max = Math.max(...counts.values())
    const oldest = [...this.#waiting].find(({ account }) => counts.get(account) === max)!
    this.#waiting.delete(oldest)
    this.dropped++
    oldest.giveUp.abort(new Error('Too many results wait to be stored.'))
  }
}
