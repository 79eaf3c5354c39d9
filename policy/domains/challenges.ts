/** How a name can be proved to an authority: by a file that requests for it find here, or by a record in DNS. */
export type ChallengeKind = 'http-01' | 'dns-01'

/** By what an authority lets the name of an order be proved; by neither where it demands no proof. */
export interface Offer {
  http: boolean
  dns: boolean
}

interface OrderRow {
  challenge: ChallengeKind | null
  dns_value: string | null
}

/** What an order's row says of that: `challenge` is the easiest kind that is offered, and `dns_value` is there whenever DNS is one. */
export const offerOf = (order: OrderRow): Offer => ({
  http: order.challenge === 'http-01',
  dns: order.dns_value !== null,
})

/** What was last seen of a name. */
interface Sight {
  /** Requests for it arrive here. */
  points: boolean
  /**
   * DNS shows the answer to the challenge of its order. Demanded also of our name server: an authority that it has nothing for yet ends
   * the order, and the next one has to wait.
   */
  answerSeen: boolean
}

/** By what a name can be proved as it is now; null: by nothing that is offered. It may change while an order is open. */
export function provableBy({ http, dns }: Offer, { points, answerSeen }: Sight): ChallengeKind | null {
  if (http && points) return 'http-01'
  return dns && answerSeen ? 'dns-01' : null
}

/** The text that an order waits for in DNS; null: none, or the name is proved without it. */
export const awaitedAnswer = (order: OrderRow, { points }: Pick<Sight, 'points'>): string | null =>
  offerOf(order).http && points ? null : order.dns_value
