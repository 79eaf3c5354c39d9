import { sleep } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import {
  type CertificatesOfName,
  ensureRequest,
  findCertificates,
  recordOrder,
  storeCertificate,
  takeOrder,
} from '../../db/domains/certificates.ts'
import { recordLook, recordNextLook } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
import { findDomain } from '../../db/domains/domains.ts'
import { type ChallengeKind, offerOf, provableBy } from '../../policy/domains/challenges.ts'
import { edgeRules } from '../../policy/domains/edges.ts'
import { registeredDomain } from '../../policy/domains/names.ts'
import { type DomainState, type NextStep, nextStep } from '../../policy/domains/next-step.ts'
import { domainTimes, orderLookDelayMs, renewalTime } from '../../policy/domains/times.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { chainFacts } from '../certificates/chain.ts'
import { AuthorityError, type CertificateAuthority, type Order, type OrderStatus } from '../certificates/port.ts'
import { newRequest } from '../certificates/request.ts'
import { untilApplied, untilServed, type Watched, warnOfRenewal, watchRenewal } from './current-certificate.ts'
import type { DomainSight } from './domain-sight.ts'
import { type Attempt, demandServable, OrderInvalid, OrderStopped, recordingFailures } from './order-failures.ts'

/** What the workflow of a domain does next. */
export type DueStep =
  | { do: 'end' }
  /** `ownerId`: with whose names it waits for a worker (workflows/domain.ts); none for the platform's own. */
  | ({ ownerId?: string; summary: string } & (
      | { do: 'wait'; milliseconds: number }
      | { do: 'order' | 'certify' | 'serve' }
    ))

export interface DomainParts {
  db: Db
  keys: SealKeys
  /** Looks at DNS, and at where requests for the name arrive. */
  sight: DomainSight
  /** Null: the platform serves no https. */
  authority: { name: string; issues: CertificateAuthority } | null
  now?: () => Date
  /** Milliseconds between the first two looks at an order. */
  pollMs?: number
  /** How long proxies have for a certificate, in milliseconds. */
  serveMs?: number
}

export type DomainSteps = ReturnType<typeof domainSteps>

/** How long a step waits for an authority, in milliseconds. */
const authorityTimeoutMs = 90_000

/**
 * The steps of a domain's life. Each reads what it needs from the row and may be repeated. True: it is done. False: it was not, and the
 * row says why.
 */
export function domainSteps({
  db,
  keys,
  sight,
  authority,
  now = () => new Date(),
  pollMs = domainTimes.orderLook.firstMs,
  serveMs = edgeRules.serveSeconds * 1000,
}: DomainParts) {
  const times = { pollMs, serveMs }
  const failing = recordingFailures(db, now)

  /** The order of a name that is under way, at an authority that this installation uses. */
  async function orderInProgress(hostname: string, attempt: Attempt): Promise<CertificateRow & { order_url: string }> {
    const { ordered } = await findCertificates(db, hostname)
    if (!authority || !ordered?.order_url || ordered.authority !== authority.name) throw new OrderStopped()
    attempt.order = ordered
    return { ...ordered, order_url: ordered.order_url }
  }

  async function untilStatus(url: string, done: readonly OrderStatus[]): Promise<Order> {
    const end = Date.now() + authorityTimeoutMs
    for (let looks = 0; ; looks++) {
      const order = await authority!.issues.look(url)
      if (done.includes(order.status)) return order
      if (order.status === 'invalid')
        throw new OrderInvalid(order.problem?.code ?? 'invalid', order.problem?.message ?? 'The order has failed.')
      if (Date.now() > end) throw new AuthorityError('timeout', 'The authority has not decided yet.')
      await sleep(orderLookDelayMs(looks, pollMs)) // ends with the worker
    }
  }

  return {
    /** Looks at DNS and records what it shows. Decides what is due. */
    async lookAtDomain(hostname: string): Promise<DueStep> {
      for (;;) {
        const before = await findDomain(db, hostname)
        if (!before) return { do: 'end' }
        const certificates = await findCertificates(db, hostname)
        const seen = await sight.look(before, certificates.ordered)
        const domain = await recordLook(db, before, seen.look, now())
        // It has lapsed, or was released; another account may have claimed it immediately.
        if (!domain) continue
        const parts = { db, authority: authority?.issues ?? null, now }
        const watched = await watchRenewal(parts, certificates.current)
        const circumstances = { answerSeen: seen.answerSeen, authority: authority?.name ?? null, now: now() }
        const next = nextStep(stateOf(domain, { ...watched, ordered: certificates.ordered }, circumstances), now())
        // The look may have cleared why the last order failed.
        const reason = before.message ?? domain.message ?? (next.do === 'wait' ? `The platform ${next.summary}.` : null)
        if (reason !== null) await warnOfRenewal(parts, { hostname, reason }, watched.current)
        await recordNextLook(db, hostname, dueAgain(next, now()), before.look_at)
        return { ...asDue(next, now()), ...(domain.owner_id !== null && { ownerId: domain.owner_id }) }
      }
    },

    /** Orders a certificate, within the limits of the authority. */
    async openOrder(hostname: string): Promise<boolean> {
      return failing(hostname, async (domain, attempt) => {
        if (!authority || !domain.proved_at) throw new OrderStopped()
        const names = await authority.issues.caaNames().catch(() => []) // it decides, once it answers
        const refusal = await sight.caaRefusal(domain, names)
        if (refusal) throw new AuthorityError('caa', refusal)
        const { current } = await findCertificates(db, hostname)
        const registered = registeredDomain(hostname)
        const order = await takeOrder(db, { hostname, registered, authority: authority.name, now: now() })
        if (!order) throw new AuthorityError('localLimit', 'Too many certificates were ordered lately.', 3_600_000)
        attempt.order = order
        if (order.order_url) return
        const isOurs = current?.authority === authority.name
        const replaces = isOurs && current.chain ? chainFacts(current.chain).ariId : null
        const opened = await authority.issues.order({ hostnames: [hostname], ...(replaces && { replaces }) })
        const { url: order_url, expiresAt } = opened
        // One that is over already would be replaced immediately, again and again: the authority has another time.
        const order_ends_at = expiresAt && expiresAt > now() ? expiresAt : null
        await recordOrder(db, order.id, { order_url, order_ends_at, ...offeredIn(opened) })
      })
    },

    /** Has the authority validate the name by what it can be proved by now, once the proxies can answer it. */
    async answerChallenge(hostname: string): Promise<boolean> {
      return failing(hostname, async (domain, attempt) => {
        const { order_url, ...order } = await orderInProgress(hostname, attempt)
        const offer = offerOf(order)
        if (!offer.http && !offer.dns) return
        // The look before this step has seen one way: where it is not http, it is DNS.
        const kind = provableBy(offer, { ...domain, answerSeen: true })
        if (!kind) throw new OrderStopped()
        if (kind === 'http-01' && !(await untilApplied(db, times)))
          throw new AuthorityError('notApplied', 'No proxy has confirmed that it answers the authority.')
        await authority!.issues.answer(order_url, kind)
      })
    },

    async awaitValidation(hostname: string): Promise<boolean> {
      return failing(hostname, async (_, attempt) => {
        const { order_url } = await orderInProgress(hostname, attempt)
        await untilStatus(order_url, ['ready', 'processing', 'valid'])
      })
    },

    /** Sends the request for the certificate. Its key is stored before, so that a repetition sends the same. */
    async finalizeOrder(hostname: string): Promise<boolean> {
      return failing(hostname, async (_, attempt) => {
        const { id, order_url } = await orderInProgress(hostname, attempt)
        const request = await ensureRequest(db, keys, id, () => newRequest([hostname]))
        if (!request) throw new OrderStopped()
        await authority!.issues.finalize(order_url, request.csr)
      })
    },

    /** Stores the certificate once the authority has issued it. */
    async collectCertificate(hostname: string): Promise<boolean> {
      return failing(hostname, async (_, attempt) => {
        const { id, order_url } = await orderInProgress(hostname, attempt)
        await untilStatus(order_url, ['valid'])
        const request = await ensureRequest(db, keys, id, () => newRequest([hostname]))
        if (!request) throw new OrderStopped()
        const chain = await authority!.issues.collect(order_url, request.csr)
        demandServable(chain, { privateKey: request.privateKey, hostnames: [hostname], now: now() })
        const facts = chainFacts(chain)
        const renewal = await authority!.issues.renewal(chain).catch(() => null) // asked again each day
        const renewAt = renewalTime(facts, renewal?.window ?? null, Math.random())
        await storeCertificate(db, id, { ...facts, chain, renewAt })
      })
    },

    /** Waits until every live proxy has the certificate. */
    async serveCertificate(hostname: string): Promise<boolean> {
      const domain = await findDomain(db, hostname)
      return domain !== undefined && untilServed(db, domain, { ...times, now })
    },
  }
}

function stateOf(
  domain: DomainRow,
  { current, askAt, ordered }: CertificatesOfName & Watched,
  { answerSeen, authority, now }: { answerSeen: boolean; authority: string | null; now: Date },
): DomainState {
  return {
    hostname: domain.hostname,
    isProved: domain.proved_at !== null,
    ...{ points: domain.points, answerSeen, secured: authority !== null },
    ...{ createdAt: domain.created_at, orderAt: domain.order_at },
    current: current
      ? {
          ...{ renewAt: current.renew_at!, isServed: current.served_at !== null },
          ...{ isOurs: current.authority === authority, askAt },
        }
      : null,
    ordered: ordered
      ? {
          isOpen: ordered.order_url !== null && ordered.authority === authority && !hasEnded(ordered, now),
          ...{ offer: offerOf(ordered), createdAt: ordered.created_at },
        }
      : null,
  }
}

/** Of its own accord, without a word of the authority. */
const hasEnded = ({ order_ends_at }: CertificateRow, now: Date): boolean =>
  order_ends_at !== null && order_ends_at <= now

/** By what the authority lets the name of an order be proved, as its row has it; throws where that is nothing we can do. */
function offeredIn({ authorizations }: Order): Pick<CertificateRow, 'challenge' | 'dns_value'> {
  const pending = authorizations.filter(({ status }) => status === 'pending')
  const offered = pending.flatMap(({ challenges }) => challenges)
  const of = (kind: ChallengeKind) => offered.find(one => one.kind === kind)
  const challenge = (of('http-01') ?? of('dns-01'))?.kind ?? null
  if (pending.length > 0 && challenge === null)
    throw new AuthorityError('unsupportedChallenge', 'The authority validates names neither by http nor by DNS.')
  return { challenge, dns_value: of('dns-01')?.value ?? null }
}

/** Steps of an order take some minutes at most: after that the relay looks whether the workflow lives. */
const stepTimeoutMs = 300_000

const dueAgain = (next: NextStep, now: Date): Date =>
  next.do === 'wait' ? next.until : new Date(now.getTime() + stepTimeoutMs)

const summaries = {
  order: 'orders a certificate',
  certify: 'proves the name to the authority',
  serve: 'gives the certificate to the proxies',
} as const

function asDue(next: NextStep, now: Date) {
  if (next.do !== 'wait') return { do: next.do, summary: summaries[next.do] } as const
  const { until, summary } = next
  return { do: 'wait', milliseconds: Math.max(1000, until.getTime() - now.getTime()), summary } as const
}
