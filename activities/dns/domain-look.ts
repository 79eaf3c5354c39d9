import { randomBytes } from 'node:crypto'
import { AddressSet } from '../../lib/addresses.ts'
import { caaNames, caaRefusal } from '../../policy/domains/caa.ts'
import { dnsRules } from '../../policy/domains/dns-rules.ts'
import { isHostnameWithin } from '../../policy/domains/names.ts'
import type { ProofRecords } from '../../policy/domains/records.ts'
import type { Sighting, Sightings } from '../../policy/domains/take-over.ts'
import type { Dns, DnsAnswer } from './port.ts'
import { addressesOf, type ReadHost } from './probe.ts'

export interface DomainLookOptions {
  dns: Dns
  read: ReadHost
  /** Domains of the platform (`platformDomains`): a CNAME to a name below one of them points here. */
  ownDomains: readonly string[]
  /** EDGE_PUBLIC_ADDRESSES. */
  publicAddresses: readonly string[]
  /** What our proxies answer after the nonce of a probe and a dot. */
  edgeProof: string
}

/** What DNS and a probe say of a custom domain. */
export interface DomainLook extends Sightings {
  /** By what the name was seen to lead to the platform; null = it does not. */
  points: 'cname' | 'address' | 'probe' | null
  /** Why something is not known, in words. */
  trouble: string | null
}

const probePath = (nonce: string): string => `/.well-known/berth-check/${nonce}`

/** Looks for the records of one account, and whether the name leads here. It never rejects. */
export async function lookAtDomain(
  hostname: string,
  proof: ProofRecords,
  options: DomainLookOptions,
): Promise<DomainLook> {
  const [{ sightings, trouble }, pointing] = await Promise.all([
    lookForProofs(options.dns, [proof]),
    lookWhereItLeads(hostname, options),
  ])
  return { ...sightings[0]!, points: pointing.by, trouble: trouble ?? pointing.trouble }
}

/** Which of the records of these accounts, for the same host name, DNS has; in the order of `proofs`. Two questions. */
export async function lookForProofs(
  dns: Dns,
  proofs: readonly ProofRecords[],
): Promise<{ sightings: Sightings[]; trouble: string | null }> {
  const { txt, cname } = proofs[0]!
  const [texts, targets] = await Promise.all([dns.look(txt.name, 'TXT'), dns.look(cname.name, 'CNAME')])
  return {
    sightings: proofs.map(one => ({
      txt: sightingIn(texts, one.txt.value),
      cname: sightingIn(targets, one.cname.value),
    })),
    trouble: troubleOf(txt.name, texts) ?? troubleOf(cname.name, targets),
  }
}

function sightingIn(answer: DnsAnswer, value: string): Sighting {
  if ('failed' in answer) return 'failed'
  // People paste values with spaces around them.
  return answer.records.some(record => record.trim() === value) ? 'seen' : 'missing'
}

/** Why the records of a name are not known, in words; null: they are. */
export const troubleOf = (name: string, answer: DnsAnswer): string | null =>
  'failed' in answer ? `The records of ${name} are not known: ${answer.failed}.` : null

/** The quickest sign first: a probe is a request to somebody's server. */
async function lookWhereItLeads(
  hostname: string,
  { dns, read, ownDomains, publicAddresses, edgeProof }: DomainLookOptions,
): Promise<{ by: DomainLook['points']; trouble: string | null }> {
  if (await endsAtOurs(dns, hostname, ownDomains)) return { by: 'cname', trouble: null }
  const answers = await addressesOf(dns, hostname)
  if ('failed' in answers) return { by: null, trouble: answers.failed }
  const own = new AddressSet(publicAddresses)
  if (answers.addresses.every(address => own.has(address))) return { by: 'address', trouble: null }
  const nonce = randomBytes(16).toString('hex')
  const answer = await read(hostname, probePath(nonce))
  if ('failed' in answer) return { by: null, trouble: answer.failed }
  const isOurs = answer.body.trim() === `${nonce}.${edgeProof}`
  return isOurs ? { by: 'probe', trouble: null } : { by: null, trouble: `${hostname} leads to another server.` }
}

/** Whether the chain of CNAME records of a name reaches a domain of the platform. */
async function endsAtOurs(dns: Dns, hostname: string, ownDomains: readonly string[]): Promise<boolean> {
  let name = hostname
  for (let hop = 0; hop < dnsRules.maxChain; hop++) {
    const answer = await dns.look(name, 'CNAME')
    const [target] = 'records' in answer ? answer.records : []
    if (target === undefined) return false
    if (ownDomains.some(domain => isHostnameWithin(target, domain))) return true
    name = target
  }
  return false
}

/**
 * Why CAA records forbid an authority to certify a name, `*.` before it for a wildcard; null if they permit it, or are not known: then the
 * authority decides.
 */
export async function lookAtCaa(dns: Dns, name: string, authority: readonly string[]): Promise<string | null> {
  const isWildcard = name.startsWith('*.')
  for (const foundAt of caaNames(isWildcard ? name.slice(2) : name)) {
    const answer = await dns.look(foundAt, 'CAA')
    if ('failed' in answer) return null
    if (answer.records.length > 0) return caaRefusal({ foundAt, records: answer.records }, authority, isWildcard)
  }
  return null
}
