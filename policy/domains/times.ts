const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** When the platform looks at a custom domain, and how long it waits for its owner. Milliseconds. */
export const domainTimes = {
  /** Looks for the records of a name that is not proved, by its age: `everyMs` until `untilMs`. At the last one it lapses. */
  looks: [
    { untilMs: 15 * minute, everyMs: 15_000 },
    { untilMs: 2 * hour, everyMs: 2 * minute },
    { untilMs: day, everyMs: 10 * minute },
    { untilMs: 3 * day, everyMs: hour },
  ],
  /** Looks at a name that is proved. */
  dailyMs: day,
  /** A lost proof is mailed after this: DNS fails often, and for hours. */
  lostProofMailMs: 3 * day,
  /** From a refused order to the next one; doubles with each. */
  refusedOrder: { firstMs: hour, maxMs: day },
  /** To the next try of an order that an authority did not answer: as long as it has taken so far, within these. */
  interruptedOrder: { firstMs: minute, maxMs: 15 * minute },
  /** The longest that an authority is believed to ask for, and the share of what is left of the life of a certificate that serves. */
  retryAfter: { maxMs: 7 * day, shareOfRest: 1 / 8 },
  /** Between two looks at an order while an authority decides, or at the proxies; doubles with each, up to this many times the first. */
  orderLook: { firstMs: 50, maxTimes: 100 },
} as const

/** Milliseconds until the next look at a name that was requested so long ago and is not proved; null = it lapses. */
export function lookDelayMs(ageMs: number): number | null {
  const row = domainTimes.looks.find(({ untilMs }) => ageMs < untilMs)
  return row ? row.everyMs : null
}

/**
 * For how many of the milliseconds that an authority asks for nothing is ordered. A certificate that serves, until `endsAt`, must not end
 * meanwhile by one absurd answer.
 */
export function believedRetryMs(retryAfterMs: number, endsAt: Date | null, now: Date): number {
  const { maxMs, shareOfRest } = domainTimes.retryAfter
  const restMs = endsAt ? endsAt.getTime() - now.getTime() : 0
  return Math.min(retryAfterMs, maxMs, restMs > 0 ? restMs * shareOfRest : maxMs)
}

/** Milliseconds from the last of this number of refused orders in a row, 1 or more, to the next; never before the authority allows it. */
export function orderDelayMs(refusals: number, retryAfterMs = 0): number {
  const { firstMs, maxMs } = domainTimes.refusedOrder
  return Math.max(retryAfterMs, Math.min(maxMs, firstMs * 2 ** (refusals - 1)))
}

/** Milliseconds until an order of this age goes on that an authority did not answer; never before the authority allows it. */
export function interruptedDelayMs(ageMs: number, retryAfterMs = 0): number {
  const { firstMs, maxMs } = domainTimes.interruptedOrder
  return Math.max(retryAfterMs, Math.min(maxMs, Math.max(firstMs, ageMs)))
}

/** Milliseconds from the last of this number of looks at an order or at the proxies, counted from 0, to the next. */
export const orderLookDelayMs = (looks: number, firstMs: number = domainTimes.orderLook.firstMs): number =>
  firstMs * Math.min(domainTimes.orderLook.maxTimes, 2 ** looks)

/** Whether the owner has to hear that the proof of a name, last seen at `lostAt`, is missing. Once for each loss. */
export function isLostProofMailDue({ lostAt, mailedAt }: { lostAt: Date; mailedAt: Date | null }, now: Date): boolean {
  const isMailed = mailedAt !== null && mailedAt >= lostAt
  return !isMailed && now.getTime() - lostAt.getTime() >= domainTimes.lostProofMailMs
}

/** Renewal of certificates, and what owners hear when it fails. */
const certificateTimes = {
  /** Share of its life after which a certificate is renewed, if its authority does not say when; plus or minus `spread`. */
  renewShare: 2 / 3,
  spread: 0.05,
  /** Share after which it is due, whatever its authority says. */
  latestShare: 7 / 8,
  /** Owners hear of a renewal that has failed until so long before the end. */
  warnBeforeMs: [14 * day, 3 * day],
  /** The life for which these are meant; a shorter one has them in proportion. */
  usualLifeMs: 90 * day,
} as const

export interface Validity {
  notBefore: Date
  notAfter: Date
}

/** When the authority wants a certificate renewed (RFC 9773). */
export interface RenewalWindow {
  from: Date
  to: Date
}

/** Milliseconds. */
export const lifeOf = ({ notBefore, notAfter }: Validity): number => notAfter.getTime() - notBefore.getTime()

const atShare = (validity: Validity, share: number): Date =>
  new Date(validity.notBefore.getTime() + share * lifeOf(validity))

/**
 * When a certificate is renewed: within the window that its authority names, but with an eighth of its life left, else two thirds into its
 * life. `draw`, at least 0 and below 1,
 * is drawn once for a certificate, so that many which were made together are not renewed together.
 */
export function renewalTime(validity: Validity, window: RenewalWindow | null, draw: number): Date {
  const { renewShare, spread, latestShare } = certificateTimes
  if (!window) return atShare(validity, renewShare + (draw * 2 - 1) * spread)
  const time = window.from.getTime() + draw * Math.max(0, window.to.getTime() - window.from.getTime())
  return new Date(Math.min(time, atShare(validity, latestShare).getTime()))
}

/** How many of the warnings about the end of a certificate are due by now; those that were sent count too. */
export function warningsDue(validity: Validity, now: Date): number {
  const { warnBeforeMs, usualLifeMs } = certificateTimes
  const scale = Math.min(1, lifeOf(validity) / usualLifeMs)
  return warnBeforeMs.filter(beforeMs => now.getTime() >= validity.notAfter.getTime() - beforeMs * scale).length
}
