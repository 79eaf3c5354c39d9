import { unsignedDeliveries } from '../../../policy/body-budgets.ts'

const most = 10_000

/** Who has sent many large deliveries of a wrong signature of late, by address or by the owner of a webhook. Kept per process. */
export class UnsignedSenders {
  readonly #counts = new Map<string, { sent: number; until: number }>()

  note(subject: string, now: number): void {
    const known = this.#counts.get(subject)
    if (known && known.until > now) return void known.sent++
    if (this.#counts.size >= most) this.#counts.clear()
    this.#counts.set(subject, { sent: 1, until: now + unsignedDeliveries.perSeconds * 1000 })
  }

  has(subject: string, now: number): boolean {
    const known = this.#counts.get(subject)
    return known !== undefined && known.until > now && known.sent > unsignedDeliveries.allow
  }
}
