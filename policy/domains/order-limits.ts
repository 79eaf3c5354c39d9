import { lifeOf, type Validity } from './times.ts'

/** How many certificates are ordered at most: authorities refuse more, and count refused ones. */
export interface OrderLimits {
  perWindow: number
  windowSeconds: number
  /** First orders for one registered domain, such as `example.com` for `shop.example.com`. */
  perDomain: number
  domainWindowSeconds: number
  /** Share of a window for the names of one account. */
  accountShare: number
  /** Share of a window that must not be used up yet, by what the order is for: who has time leaves places to those who have none. */
  shares: Record<OrderKind, number>
}

/** Of a name without a certificate; of one whose certificate is to be renewed; of one whose certificate ends soon. */
export type OrderKind = 'first' | 'renewal' | 'ending'

/**
 * Below those of public authorities (300 in three hours, and 50 a week for one registered domain), since other programs order too. A renewal
 * does not count for its registered domain there: it is for the same names.
 */
export const orderLimits: OrderLimits = {
  perWindow: 250,
  windowSeconds: 10_800,
  perDomain: 40,
  domainWindowSeconds: 604_800,
  accountShare: 0.25,
  shares: { first: 0.6, renewal: 0.8, ending: 1 },
}

/** From this share of its life on a certificate that was not renewed yet ends soon. */
const endingShare = 7 / 8

/** What an order is for, by the current certificate of its name; null: it has none of this authority. */
export function orderKind(current: Validity | null, now: Date): OrderKind {
  if (!current) return 'first'
  const age = now.getTime() - current.notBefore.getTime()
  return age < endingShare * lifeOf(current) ? 'renewal' : 'ending'
}

/** The places that are taken: in the window, of those for the same account, and by first orders for the registered domain. */
export interface TakenPlaces {
  recent: number
  ofAccount: number
  ofDomain: number
}

/** Whether a place is left. */
export function isPlaceLeft(
  kind: OrderKind,
  { recent, ofAccount, ofDomain }: TakenPlaces,
  limits: OrderLimits,
): boolean {
  const { perWindow, perDomain, accountShare, shares } = limits
  if (recent >= Math.floor(perWindow * shares[kind])) return false
  if (kind === 'first' && ofDomain >= perDomain) return false
  return kind === 'ending' || ofAccount < Math.floor(perWindow * accountShare)
}

/** The name of the platform's own authority, which has no limits. */
export const ownAuthority = 'local'
