import type { ListedDomain } from '../../db/domains/domain-lists.ts'
import { hourMs } from '../../lib/time.ts'
import { domainTimes } from '../../policy/domains/times.ts'

/** `waiting`: for its first proof. `unproved`: served without its records. `failing`: its certificate could not be had or renewed. */
type DomainStateName = 'waiting' | 'unproved' | 'failing' | 'expired' | 'secured' | 'http'

export interface DomainState {
  state: DomainStateName
  words: string
}

/** A renewal takes seconds unless it waits for something. */
const soonMs = hourMs

const lapseMs = domainTimes.looks.at(-1)!.untilMs

export const day = (date: Date): string => date.toISOString().slice(0, 10)
export const minute = (date: Date): string => `${date.toISOString().slice(0, 16).replace('T', ' ')}Z`

/** What a state depends on in addition to the name: the time, and whether the platform serves https (EDGE_TLS). */
export interface DomainContext {
  now: Date
  secured: boolean
}

/** How a name is doing, in words. */
export function domainStateOf(domain: ListedDomain, context: DomainContext): DomainState {
  const { now, secured } = context
  const { certificate, message, proved_at, unproved_since, order_at } = domain
  if (!proved_at) {
    const lapses = new Date(domain.created_at.getTime() + lapseMs)
    return { state: 'waiting', words: `waits for its DNS record; lapses ${minute(lapses)}` }
  }
  const unproved: DomainState | null = unproved_since && {
    state: 'unproved',
    words: `its DNS records have been missing since ${day(unproved_since)}; still served`,
  }
  // What is missing for https, or an old certificate, is no trouble of a platform without it.
  if (!secured) return unproved ?? { state: 'http', words: 'http, EDGE_TLS is off' }
  const retry = order_at > now ? `; next try ${minute(order_at)}` : ''
  if (certificate?.not_after && certificate.not_after <= now)
    return {
      state: 'expired',
      words: `its certificate EXPIRED on ${day(certificate.not_after)}: ${message ?? 'not renewed'}${retry}`,
    }
  const failure = failureOf(domain, context)
  if (failure) return { state: 'failing', words: `${failure.words}${retry}` }
  if (unproved) return unproved
  if (certificate?.not_after)
    return { state: 'secured', words: `https, certificate until ${day(certificate.not_after)}` }
  return { state: 'http', words: 'http, no certificate' }
}

export interface Failure {
  words: string
  why: string
  nextTryAt: Date
}

/** Why a proved name has no certificate, no new one though it is due, or one that is not served; null: it has what it should have. */
export function failureOf(domain: ListedDomain, { now, secured }: DomainContext): Failure | null {
  const { certificate, message, proved_at, orders_failed, order_at, look_at } = domain
  if (!secured || !proved_at) return null
  const nextTryAt = order_at > now ? order_at : look_at
  if (certificate && !certificate.served_at) {
    const why = message ?? 'The proxies do not have it yet.'
    return { words: `its certificate is not served: ${why}`, why, nextTryAt }
  }
  const dueMs = now.getTime() - (certificate?.renew_at?.getTime() ?? 0)
  if (orders_failed === 0 && (dueMs < 0 || (message === null && (!certificate || dueMs < soonMs)))) return null
  const why = message ?? 'Its order waits for a record in DNS, or for requests to arrive here.'
  return { words: `no ${certificate ? 'new ' : ''}certificate: ${why}`, why, nextTryAt }
}
