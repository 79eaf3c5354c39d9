/** How many certificates are ordered at most: authorities refuse more, and count refused ones. */
export interface OrderLimits {
  perWindow: number
  windowSeconds: number
  /** For one registered domain, such as `example.com` for `shop.example.com`. */
  perDomain: number
  domainWindowSeconds: number
}

/** Below those of public authorities (300 in three hours, and 50 a week for one registered domain), since other programs order too. */
export const orderLimits: OrderLimits = {
  perWindow: 250,
  windowSeconds: 10_800,
  perDomain: 40,
  domainWindowSeconds: 604_800,
}
