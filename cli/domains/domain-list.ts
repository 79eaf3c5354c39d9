import type { ListedDomain } from '../../db/domains/domain-lists.ts'
import { columns } from '../terminal/terminal.ts'
import { type DomainContext, day, domainStateOf, failureOf, minute } from './domain-state.ts'

const dayOr = (date: Date | null): string => (date ? day(date) : '-')

/** `berth domains list` for people. */
export function domainTable(domains: readonly ListedDomain[], context: DomainContext): string {
  if (domains.length === 0) return 'No domains.'
  const head = ['DOMAIN', 'OWNER', 'APPS', 'NEXT CHECK', 'STATE']
  const rows = domains.map(domain => [
    domain.hostname,
    domain.owner_id ?? 'the platform',
    String(domain.apps.length),
    domain.look_at <= context.now ? 'now' : minute(domain.look_at),
    domainStateOf(domain, context).words,
  ])
  return columns([head, ...rows], '')
}

/** The same as one entry for scripts: exactly these keys, which docs/json-output.md lists. */
export function domainView(domain: ListedDomain, context: DomainContext) {
  const { hostname, owner_id, apps, points, txt_seen, cname_seen, proved_at, unproved_since, code, message } = domain
  const { looked_at, look_at, orders_failed, order_at, certificate, created_at } = domain
  const { state, words: summary } = domainStateOf(domain, context)
  return {
    ...{ hostname, owner_id, apps, state, summary, points, txt_seen, cname_seen, proved_at, unproved_since },
    ...{ code, message, looked_at, look_at, orders_failed, order_at, certificate, created_at },
  }
}

/** `berth certificates list` for people: the one that expires first at the top. */
export function certificateTable(domains: readonly ListedDomain[], context: DomainContext): string {
  const { now } = context
  const all = withCertificate(domains)
  if (all.length === 0) return 'No certificates. Custom domains get one once they are proved, if EDGE_TLS is not off.'
  const head = ['NAME', 'ISSUER', 'EXPIRES', 'RENEWS', 'PROXIES', 'NEXT TRY AND WHY']
  const rows = all.map(domain => {
    const { hostname, certificate } = domain
    const failure = failureOf(domain, context)
    return [
      hostname,
      certificate.issuer ?? '-',
      `${dayOr(certificate.not_after)}${certificate.not_after && certificate.not_after <= now ? ' EXPIRED' : ''}`,
      dayOr(certificate.renew_at),
      certificate.served_at ? 'have it' : 'not yet',
      failure ? `${minute(failure.nextTryAt)}: ${failure.why}` : '',
    ]
  })
  return columns([head, ...rows], '')
}

/** The same as entries for scripts. */
export function certificateViews(domains: readonly ListedDomain[], context: DomainContext) {
  return withCertificate(domains).map(domain => {
    const { hostname, owner_id, certificate, code, message, orders_failed } = domain
    const next_try_at = failureOf(domain, context)?.nextTryAt ?? null
    return { hostname, owner_id, ...certificate, orders_failed, next_try_at, code, message }
  })
}

type Certified = ListedDomain & { certificate: NonNullable<ListedDomain['certificate']> }

function withCertificate(domains: readonly ListedDomain[]): Certified[] {
  const end = (domain: Certified) => domain.certificate.not_after?.getTime() ?? 0
  return domains
    .filter((domain): domain is Certified => domain.certificate !== null)
    .sort((one, other) => end(one) - end(other))
}
