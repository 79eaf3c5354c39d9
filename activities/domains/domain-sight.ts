import type { DomainLook } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainRow } from '../../db/domains/domain-rows.ts'
import { awaitedAnswer } from '../../policy/domains/challenges.ts'
import {
  challengePrefix,
  delegationOf,
  type ProofRecords,
  platformAccount,
  proofRecords,
  withoutWildcard,
} from '../../policy/domains/records.ts'
import type { Sighting } from '../../policy/domains/take-over.ts'
import { type DomainLookOptions, lookAtCaa, lookAtDomain, type DomainLook as Seen } from '../dns/domain-look.ts'
import { type Dns, type DnsAnswer, dnsFor } from '../dns/port.ts'

/** Looks at a name from outside. */
export interface DomainSight {
  /** What DNS shows of its records, and whether the answer to the challenge of its order is there. */
  look(domain: DomainRow, ordered: CertificateRow | undefined): Promise<{ look: DomainLook; answerSeen: boolean }>
  /** Why CAA records of the name refuse an authority with these names, in words; null: they do not. */
  caaRefusal(hostname: string, caaNames: readonly string[]): Promise<string | null>
}

export interface DomainSightOptions extends DomainLookOptions {
  /** What records of accounts derive from. */
  key: Buffer
  appsDomain: string
  acmeDnsDomain: string | null
}

export function domainSight(options: DomainSightOptions): DomainSight {
  const { dns, read, key, appsDomain, acmeDnsDomain } = options

  /** Whether the answer of its order is in DNS, and whether our own name server is asked for it. */
  async function lookAtChallenge(dns: Dns, domain: DomainRow, ordered: CertificateRow | undefined) {
    const name = challengePrefix + withoutWildcard(domain.hostname)
    const [delegation, answers] = await Promise.all([
      acmeDnsDomain ? dns.look(name, 'CNAME') : none,
      ordered?.dns_value ? dns.look(name, 'TXT') : none,
    ])
    const target = acmeDnsDomain && delegationOf(key, domain, acmeDnsDomain).value
    return {
      delegated: 'failed' in delegation ? null : target !== null && delegation.records.includes(target),
      answerSeen: 'records' in answers && answers.records.includes(ordered?.dns_value ?? ''),
    }
  }

  return {
    async look(domain, ordered) {
      const { hostname, owner_id: accountId } = domain
      const asker = accountId ?? platformAccount
      const own = dnsFor(dns, asker)
      const challenge = lookAtChallenge(own, domain, ordered)
      if (accountId === null) {
        const { delegated, answerSeen } = await challenge
        const points = !hostname.startsWith('*.')
        const isAwaited = !answerSeen && ordered !== undefined && awaitedAnswer(ordered, { points }) !== null
        const problem = isAwaited && delegated ? unanswered(hostname) : null
        return { look: { ...ownName, points, delegated, problem }, answerSeen }
      }
      const proof = proofRecords(key, { accountId, hostname }, appsDomain)
      const asking = { ...options, dns: own, read: (name: string, path: string) => read(name, path, asker) }
      const [seen, { delegated, answerSeen }] = await Promise.all([lookAtDomain(hostname, proof, asking), challenge])
      return { look: { ...factsOf(seen), delegated, problem: problemOf(seen, proof) }, answerSeen }
    },

    caaRefusal: (hostname, caaNames) => lookAtCaa(dns, hostname, caaNames),
  }
}

const none: DnsAnswer = { records: [] }

/** The platform's own names need no record. */
const ownName = { txtSeen: false, cnameSeen: false }

/** What an operator has set for a name leads to our name server, and nobody gets there. */
const unanswered = (hostname: string): DomainLook['problem'] => ({
  code: 'answerMissing',
  message: `The CNAME of ${challengePrefix}${withoutWildcard(hostname)} is in DNS, and what the platform's name server has for it is not: does the NS record of ACME_DNS_DOMAIN lead to this machine, and may DNS_SERVERS ask it?`,
})

const known = (sighting: Sighting): boolean | null => (sighting === 'failed' ? null : sighting === 'seen')

const factsOf = ({ txt, cname, points }: Seen) => ({
  txtSeen: known(txt),
  cnameSeen: known(cname),
  // Where no question is answered, what was seen before stays.
  points: points === null && txt === 'failed' && cname === 'failed' ? null : points !== null,
})

/** What the owner has to do next, in words; null: nothing is missing. */
function problemOf({ txt, cname, points, trouble }: Seen, proof: ProofRecords): DomainLook['problem'] {
  const isProved = txt === 'seen' || cname === 'seen'
  if (!isProved && trouble && (txt === 'failed' || cname === 'failed')) return { code: 'dnsFailed', message: trouble }
  if (!isProved)
    return {
      code: 'recordMissing',
      message: `Neither record is in DNS yet: a CNAME of ${proof.cname.name} to ${proof.cname.value}, or a TXT record ${proof.txt.name} with ${proof.txt.value}.`,
    }
  if (points === null) return { code: 'notPointing', message: trouble ?? `${proof.cname.name} does not lead here yet.` }
  return null
}
