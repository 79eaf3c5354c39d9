import type { DomainEvent } from '../../db/domains/domain-events.ts'
import type { ListedDomain } from '../../db/domains/domain-lists.ts'
import type { CertificateRow } from '../../db/domains/domain-rows.ts'
import { notServed } from '../../db/domains/served-certificates.ts'
import { offerOf } from '../../policy/domains/challenges.ts'
import type { DnsRecord, ProofRecords } from '../../policy/domains/records.ts'
import { aligned, clock } from '../ops/ops-words.ts'
import { oneLine } from '../terminal/printable.ts'
import { domainView } from './domain-list.ts'
import { type DomainContext, domainStateOf } from './domain-state.ts'

/** Everything known about a host name. */
export interface DomainStory {
  domain: ListedDomain
  /** Null for names of the platform. */
  records: ProofRecords | null
  /** What answers the challenge of its order, in DNS; null where nothing has to be set there. */
  challenge: DnsRecord | null
  ordered: CertificateRow | undefined
  events: readonly DomainEvent[]
  /** What its workflow does, and where it is seen. */
  workflow: { status: string; id: string; url: string | null }
}

/** Everything an operator needs to know about a host name, in words. */
export function domainExplanation(story: DomainStory, context: DomainContext): string {
  const { domain, records, challenge, events } = story
  const { state, words } = domainStateOf(domain, context)
  const sections: [string, string[]][] = [
    [
      '',
      [`${domain.hostname} of ${domain.owner_id ?? 'the platform'}`, `  ${state.toUpperCase()}: ${oneLine(words)}.`],
    ],
    ['What to do', remedies(story, context)],
    ['What it is', aligned(factsOf(story))],
    ['Either of these DNS records proves it', records ? [records.cname, records.txt].map(recordLine) : []],
    ['The DNS record that its certificate waits for', challenge ? [recordLine(challenge)] : []],
    ['What happened, oldest first', events.map(({ at, text }) => `${clock(at)}Z  ${oneLine(text)}`)],
  ]
  return sections
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => (title ? [`${title}:`, ...lines.map(line => `  ${line}`)] : lines).join('\n'))
    .join('\n\n')
}

const recordLine = ({ type, name, value }: DnsRecord): string => `${type.toUpperCase()}  ${name}  ${value}`

function factsOf({ domain, ordered, workflow }: DomainStory): [string, string | null][] {
  const { certificate } = domain
  const seen = [domain.txt_seen && 'TXT', domain.cname_seen && 'CNAME'].filter(Boolean).join(' and ')
  return [
    ['applications', domain.apps.join(', ') || 'none'],
    ['records seen', seen || 'none'],
    ['requests', domain.points ? 'arrive here' : 'do not arrive here'],
    ['proved', domain.proved_at && clock(domain.proved_at)],
    ['last check', domain.looked_at && `${clock(domain.looked_at)}, number ${domain.looks}`],
    ['next check', clock(domain.look_at)],
    ['certificate', certificate ? `of ${certificate.issuer}, expires ${clock(certificate.not_after!)}` : 'none'],
    ['renews', certificate?.renew_at ? clock(certificate.renew_at) : null],
    [
      'proxies',
      certificate
        ? certificate.served_at
          ? `have it since ${clock(certificate.served_at)}`
          : 'do not all have it'
        : null,
    ],
    ['order', ordered ? `${offerWords(ordered)} at ${ordered.order_url ?? ordered.authority}` : null],
    ['refused orders in a row', domain.orders_failed ? String(domain.orders_failed) : null],
    ['workflow', `${workflow.id}, ${workflow.status}${workflow.url ? `: ${workflow.url}` : ''}`],
  ]
}

function offerWords(ordered: CertificateRow): string {
  const { http, dns } = offerOf(ordered)
  return [http && 'http-01', dns && 'dns-01'].filter(Boolean).join(' or ') || 'no challenge'
}

function remedies({ domain, records, workflow }: DomainStory, context: DomainContext): string[] {
  const { state } = domainStateOf(domain, context)
  const lines: string[] = []
  if (state === 'waiting' && records)
    lines.push(`Its owner sets one of the records below; then: berth domains retry ${domain.hostname}`)
  if (state === 'unproved')
    lines.push('Its owner sets one of the records below again, or another account can take it over.')
  if (domain.message) lines.push(oneLine(`${domain.code}: ${domain.message}`))
  if (domain.code === notServed)
    lines.push('The worker logs which certificate a proxy refuses, and why: berth logs worker')
  if (state === 'failing' || state === 'expired')
    lines.push(`Once the cause is fixed: berth domains retry ${domain.hostname}`)
  if (workflow.status !== 'RUNNING')
    lines.push('Its workflow is not running. The worker wakes it; see: berth ps, berth logs worker')
  return lines
}

/** The same as one object for scripts: exactly these keys, which docs/json-output.md lists. */
export function domainStoryView(
  { domain, records, challenge, ordered, events, workflow }: DomainStory,
  context: DomainContext,
) {
  return {
    ...domainView(domain, context),
    records: records ? [records.cname, records.txt] : [],
    challenge,
    order: ordered ? { authority: ordered.authority, url: ordered.order_url, challenge: ordered.challenge } : null,
    events,
    workflow,
  }
}
