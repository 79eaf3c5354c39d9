import { type Offer, provableBy } from './challenges.ts'
import { challengePrefix, withoutWildcard } from './records.ts'
import { domainTimes, lookDelayMs } from './times.ts'

/** Everything that decides what the workflow of a domain does next. */
export interface DomainState {
  hostname: string
  isProved: boolean
  /** Requests for it arrive here. */
  points: boolean
  /** Whether DNS shows the answer to the challenge of the order under way. */
  answerSeen: boolean
  createdAt: Date
  /** No order before. */
  orderAt: Date
  /** `isOurs`: of the authority that the installation uses now. One of another is due. `askAt`: when it is asked again about the renewal. */
  current: { renewAt: Date; isServed: boolean; isOurs: boolean; askAt: Date | null } | null
  /** `isOpen`: the authority has it, and has not forgotten it yet. */
  ordered: { isOpen: boolean; offer: Offer; createdAt: Date } | null
  /** Whether the platform serves https. */
  secured: boolean
}

export type NextStep =
  | { do: 'order' | 'certify' | 'serve' }
  /** `summary` says what for, in words that operators see. */
  | { do: 'wait'; until: Date; summary: string }

/** What is due for a domain now. */
export function nextStep(state: DomainState, now: Date): NextStep {
  const { isProved, current, secured } = state
  if (!isProved) return wait(later(now, delayMs(state.createdAt, now)), 'looks for its record in DNS')
  if (!secured) return wait(later(now, domainTimes.dailyMs), 'looks for its record again')
  const next = nextCertificate(state, now)
  // One that the proxies refuse for good must not keep the next one from being ordered.
  return next.do === 'wait' && current && !current.isServed ? { do: 'serve' } : next
}

/** What is due for the next certificate of a name that is proved. */
function nextCertificate(state: DomainState, now: Date): NextStep {
  const { current, ordered } = state
  const tomorrow = later(now, domainTimes.dailyMs)
  if (current?.isOurs && current.renewAt > now) {
    const again = current.askAt ? earlier(current.askAt, tomorrow) : tomorrow
    if (current.renewAt > again) return wait(again, `looks again; renews its certificate ${dayOf(current.renewAt)}`)
    return wait(current.renewAt, 'renews its certificate')
  }
  if (state.orderAt > now) return wait(earlier(state.orderAt, tomorrow), 'tries to get a certificate again')
  if (!ordered?.isOpen) return { do: 'order' }
  const { offer, createdAt } = ordered
  const isAsked = offer.http || offer.dns
  if (isAsked && provableBy(offer, state) === null)
    return wait(later(now, delayMs(createdAt, now)), awaitedProof(offer, state.hostname))
  return { do: 'certify' }
}

function awaitedProof({ http, dns }: Offer, hostname: string): string {
  const record = `the record ${challengePrefix}${withoutWildcard(hostname)}`
  if (!http) return `waits for ${record}`
  return `waits until requests for it arrive here${dns ? `, or for ${record}` : ''}`
}

/** Frequent at first, then rarer; the last interval stays. */
const delayMs = (since: Date, now: Date): number =>
  lookDelayMs(now.getTime() - since.getTime()) ?? domainTimes.looks.at(-1)!.everyMs

const wait = (until: Date, summary: string): NextStep => ({ do: 'wait', until, summary })

const later = (now: Date, milliseconds: number): Date => new Date(now.getTime() + milliseconds)

const dayOf = (date: Date): string => date.toISOString().slice(0, 10)

const earlier = (one: Date, other: Date): Date => (one < other ? one : other)
