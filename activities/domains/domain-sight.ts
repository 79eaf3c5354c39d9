import type { DomainLook } from '../../db/domains/domain-looks.ts'
import type { CertificateRow, DomainClaim, DomainRow } from '../../db/domains/domain-rows.ts'
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
import {
  type DomainLookOptions,
  lookAtCaa,
  lookAtDomain,
  type DomainLook as Seen,
  troubleOf,
} from '../dns/domain-look.ts'
import { type Dns, type DnsAnswer, dnsFor } from '../dns/port.ts'

/** Looks at a name from outside. */
export interface DomainSight {
  /** What DNS shows of its records, and whether the answer to the challenge of its order is there. */
  look(domain: DomainRow, ordered: CertificateRow | undefined): Promise<{ look: DomainLook; answerSeen: boolean }>
  /** Why CAA records of the name refuse an authority with these names, in words; null: they do not. */
  caaRefusal(domain: DomainClaim, caaNames: readonly string[]): Promise<string | null>
}

export interface DomainSightOptions extends DomainLookOptions {
  /** What records of accounts derive from. */
  key: Buffer
  appsDomain: string
  acmeDnsDomain: string | null
}

export function domainSight(options: DomainSightOptions): DomainSight {
  const { dns, read, key, appsDomain, acmeDnsDomain } = options

  async function lookAtName(dns: Dns, { hostname, owner_id: accountId }: DomainRow) {
    if (accountId === null) return { ...ownName, points: !hostname.startsWith('*.'), problem: null }
    const proof = proofRecords(key, { accountId, hostname }, appsDomain)
    const asking = { ...options, dns, read: (name: string, path: string) => read(name, path, accountId) }
    const seen = await lookAtDomain(hostname, proof, asking)
    return { ...factsOf(seen), problem: problemOf(seen, proof) }
  }

  async function lookAtChallenge(dns: Dns, domain: DomainRow, ordered: CertificateRow | undefined): Promise<Challenge> {
    const name = challengePrefix + withoutWildcard(domain.hostname)
    const [delegation, answers] = await Promise.all([
      acmeDnsDomain ? dns.look(name, 'CNAME') : none,
      ordered?.dns_value ? dns.look(name, 'TXT') : none,
    ])
    const target = acmeDnsDomain && delegationOf(key, domain, acmeDnsDomain).value
    return {
      delegated: 'failed' in delegation ? null : target !== null && delegation.records.includes(target),
      answerSeen: 'records' in answers && answers.records.includes(ordered?.dns_value ?? ''),
      trouble: troubleOf(name, delegation) ?? troubleOf(name, answers),
    }
  }

  return {
    async look(domain, ordered) {
      const own = dnsFor(dns, domain.owner_id ?? platformAccount)
      const [name, challenge] = await Promise.all([lookAtName(own, domain), lookAtChallenge(own, domain, ordered)])
      const { delegated, answerSeen } = challenge
      const points = name.points ?? domain.points
      const isAwaited = !answerSeen && ordered !== undefined && awaitedAnswer(ordered, { points }) !== null
      const problem = isAwaited ? problemOfAwaited(domain, name.problem, challenge) : name.problem
      return { look: { ...name, delegated, problem }, answerSeen }
    },

    caaRefusal: ({ hostname, owner_id }, caaNames) =>
      lookAtCaa(dnsFor(dns, owner_id ?? platformAccount), hostname, caaNames),
  }
}

const none: DnsAnswer = { records: [] }

type Problem = DomainLook['problem']

/** The platform's own names need no record. */
const ownName = { txtSeen: false, cnameSeen: false }

/** What DNS shows at the name where authorities look for the answer of an order. */
interface Challenge {
  /** It leads to our own name server; null: that is not known. */
  delegated: boolean | null
  answerSeen: boolean
  /** Why something of this is not known, in words. */
  trouble: string | null
}

/** What is missing of a name whose order waits for its answer in DNS: first its proof, then what a delegation does not lead to. */
function problemOfAwaited(domain: DomainRow, problem: Problem, { delegated, trouble }: Challenge): Problem {
  if (problem && problem.code !== 'notPointing') return problem
  if (delegated ?? domain.delegated) return unanswered(domain, trouble)
  return problem ?? (trouble === null ? null : { code: 'dnsFailed', message: trouble })
}

/** What was set for a name leads to our name server, which is unreachable. */
function unanswered({ hostname, owner_id }: DomainRow, trouble: string | null): Problem {
  const name = challengePrefix + withoutWildcard(hostname)
  const missing = `The CNAME of ${name} was seen in DNS, and the answer of the platform's name server is not there`
  const advice =
    owner_id === null
      ? `${missing}: does the NS record of ACME_DNS_DOMAIN lead to this machine, and may DNS_SERVERS ask it?`
      : `${missing} yet. If that lasts, tell the operator of the platform.`
  return { code: 'answerMissing', message: trouble === null ? advice : `${advice} ${trouble}` }
}

const factOf = (sighting: Sighting): boolean | null => (sighting === 'failed' ? null : sighting === 'seen')

const factsOf = ({ txt, cname, points }: Seen) => ({
  txtSeen: factOf(txt),
  cnameSeen: factOf(cname),
  // Where no question is answered, what was seen before stays.
  points: points === null && txt === 'failed' && cname === 'failed' ? null : points !== null,
})

/** What the owner has to do next, in words; null: nothing is missing. */
function problemOf({ txt, cname, points, trouble }: Seen, proof: ProofRecords): Problem {
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
