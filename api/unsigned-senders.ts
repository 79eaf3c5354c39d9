import { unsignedDeliveries } from '../policy/body-budgets.ts'
import { networkOf } from './address.ts'

const most = 10_000

/** Addresses that have sent many deliveries of a wrong signature of late. Kept per process. */
export class UnsignedSenders {
  readonly #counts = new Map<string, { sent: number; until: number }>()

  note(address: string, now: number): void {
    const source = networkOf(address)
    const known = this.#counts.get(source)
    if (known && known.until > now) return void known.sent++
    if (this.#counts.size >= most) this.#counts.clear()
    this.#counts.set(source, { sent: 1, until: now + unsignedDeliveries.perSeconds * 1000 })
  }

  has(address: string, now: number): boolean {
    const known = this.#counts.get(networkOf(address))
    return known !== undefined && known.until > now && known.sent > unsignedDeliveries.allow
  }
}
