import { X509Certificate } from 'node:crypto'
import { dayMs } from '../../lib/time.ts'

/** Lives of certificates, and when what follows them begins. */
export const certificateTerms = {
  /** Days for which the certificates of a database are valid; the most that common clients accept. */
  days: 397,
  /** Share of its life after which a certificate is replaced, and after which owners get the next authority alongside the present one. */
  renewShare: 2 / 3,
  /** An authority issues until this many days before its end; from then on the next one does, which owners have had for years. */
  handoverDays: 30,
} as const

/** Automatic renewals. */
export const renewalRules = {
  everySeconds: 60,
  /** Renewals that one round begins. */
  atOnce: 10,
  /** Seconds from each renewal in a row that has failed to the next one; the last applies to all that follow. */
  delaysSeconds: [600, 3600, 21_600, 86_400],
} as const

export interface Term {
  beginsAt: Date
  endsAt: Date
}

/** The validity of a certificate, PEM. Throws for a text that is none. */
export function termOf(pem: string): Term {
  const { validFrom, validTo } = new X509Certificate(pem)
  return { beginsAt: new Date(validFrom), endsAt: new Date(validTo) }
}

const partOf = ({ beginsAt, endsAt }: Term): Date =>
  new Date(beginsAt.getTime() + (endsAt.getTime() - beginsAt.getTime()) * certificateTerms.renewShare)

/** When an authority hands issuing over to the next one. */
const handoverOf = ({ endsAt }: Term): Date => new Date(endsAt.getTime() - certificateTerms.handoverDays * dayMs)

/** When a certificate is due to be replaced: at the latest when its authority hands issuing over to the next one. */
export function renewAt(certificate: Term, authority: Term): Date {
  const [due, handover] = [partOf(certificate), handoverOf(authority)]
  return handover > certificate.beginsAt && handover < due ? handover : due
}

/** Milliseconds from the renewal with this number of failures in a row, itself included, to the next one. */
export function renewalDelayMs(failures: number): number {
  const { delaysSeconds } = renewalRules
  return delaysSeconds[Math.min(failures, delaysSeconds.length) - 1]! * 1000
}

export interface AuthorityParts<A> {
  /** The one that issues; undefined = another one must be made first. */
  issuing: A | undefined
  /** Those that clients trust, the issuing one first. */
  trusted: A[]
  /** Another one must be made now, so that clients have it long before it issues. */
  isNextDue: boolean
}

/**
 * The part that each authority of an installation has, oldest first. Two thirds into the life of one the next begins: from then on owners
 * read both, and the earlier one goes on to issue for more than three years. A client that has never read the second one thus goes on to
 * verify until a month before the first one ends, when every certificate that it issued ends anyway.
 */
export function standingOf<A extends { term: Term }>(authorities: readonly A[], now: Date): AuthorityParts<A> {
  const alive = authorities.filter(({ term }) => term.endsAt > now)
  const issuing = alive.find(({ term }) => handoverOf(term) > now) ?? alive.at(-1)
  const newest = alive.at(-1)
  return {
    issuing,
    trusted: issuing ? [issuing, ...alive.filter(one => one !== issuing)] : [],
    isNextDue: !newest || partOf(newest.term) <= now,
  }
}
