import { createHmac } from 'node:crypto'
import { deriveKey } from '../keys.ts'

/** Begins the subdomains below APPS_DOMAIN that prove custom domains; no application can have one. */
export const targetPrefix = 'custom-'
const proofPrefix = '_berth.'
/** Where authorities look for the answer of a DNS-01 challenge (RFC 8555, 8.4). */
export const challengePrefix = '_acme-challenge.'

export interface DnsRecord {
  type: 'cname' | 'txt'
  name: string
  value: string
}

/** Stands for the account of the platform's own names. */
export const platformAccount = 'platform'

/** The key that the records of this installation derive from. */
export const domainRecordKey = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'domain-records/1')

/** Either record proves that its account controls the name. */
export interface ProofRecords {
  cname: DnsRecord
  txt: DnsRecord
}

/**
 * The records that only this account can ask for and only for this name: derived from the installation's key for domains, so that nothing
 * secret is stored, and that a record which somebody left behind proves nothing for anyone else.
 */
export function proofRecords(
  key: Buffer,
  owner: { accountId: string; hostname: string },
  appsDomain: string,
): ProofRecords {
  const { hostname } = owner
  return {
    cname: { type: 'cname', name: hostname, value: `${targetPrefix}${derive(key, 'cname', owner, 20)}.${appsDomain}` },
    txt: { type: 'txt', name: proofPrefix + hostname, value: `berth-verify=${derive(key, 'txt', owner, 32)}` },
  }
}

/**
 * The name below ACME_DNS_DOMAIN at which our name server answers challenges of this name, once its owner has a CNAME from
 * `_acme-challenge.<hostname>` to it.
 */
export function challengeDelegation(
  key: Buffer,
  owner: { accountId: string; hostname: string },
  acmeDnsDomain: string,
): DnsRecord {
  const value = `${derive(key, 'challenge', owner, 20)}.${acmeDnsDomain}`
  return { type: 'cname', name: challengePrefix + owner.hostname, value }
}

/** The delegation of a row's name: that of a wildcard is its parent's, and names of the platform have an account of their own. */
export const delegationOf = (
  key: Buffer,
  { hostname, owner_id }: { hostname: string; owner_id: string | null },
  acmeDnsDomain: string,
): DnsRecord =>
  challengeDelegation(
    key,
    { accountId: owner_id ?? platformAccount, hostname: withoutWildcard(hostname) },
    acmeDnsDomain,
  )

/** `shop.example.com` for `*.shop.example.com`, and for itself. */
export const withoutWildcard = (name: string): string => name.replace(/^\*\./, '')

function derive(
  key: Buffer,
  purpose: string,
  { accountId, hostname }: { accountId: string; hostname: string },
  hexDigits: number,
): string {
  return createHmac('sha256', key)
    .update(`berth/domain/${purpose}/${accountId}/${hostname}`)
    .digest('hex')
    .slice(0, hexDigits)
}

/** What is known of a custom domain when its owner requests the records. */
export interface DomainStanding {
  proof: ProofRecords
  /** The TXT record is in DNS. */
  txtSeen: boolean
  /** The name leads to the platform, by the CNAME or by another record. */
  points: boolean
  /** Requests for the name are answered, by https where the platform has it. */
  isServed: boolean
  /** The challenge of the order under way, or the delegation to our name server; null = there is neither. */
  challenge: { record: DnsRecord; isSeen: boolean } | null
}

export interface ShownRecord extends DnsRecord {
  status: 'pending' | 'pending_validation' | 'active'
}

/** The records that an owner sets or has set (contract 4.28). The TXT record has done its work once it is seen. */
export function shownRecords({ proof, txtSeen, points, isServed, challenge }: DomainStanding): ShownRecord[] {
  const status = (isSeen: boolean): ShownRecord['status'] =>
    !isSeen ? 'pending' : isServed ? 'active' : 'pending_validation'
  return [
    { ...proof.txt, status: txtSeen ? 'active' : 'pending' },
    ...(challenge ? [{ ...challenge.record, status: status(challenge.isSeen) }] : []),
    { ...proof.cname, status: status(points) },
  ]
}

/** What the record of a challenge depends on: the row of the name, and the answer that its order waits for. */
interface ChallengedName {
  hostname: string
  owner_id: string | null
  /** Our name server answers for it. */
  delegated: boolean
}

/**
 * The record with which an owner lets the platform answer challenges in DNS, and whether it was seen: once for all orders, where the
 * platform has a name server for that; else of the order that waits for it. Null: there is none to set.
 */
export function challengeOf(
  name: ChallengedName,
  answer: string | null | undefined,
  { key, acmeDnsDomain }: { key: Buffer; acmeDnsDomain: string | null },
): { record: DnsRecord; isSeen: boolean } | null {
  if (acmeDnsDomain) return { record: delegationOf(key, name, acmeDnsDomain), isSeen: name.delegated }
  if (!answer) return null
  const record: DnsRecord = { type: 'txt', name: challengePrefix + withoutWildcard(name.hostname), value: answer }
  return { record, isSeen: false } // one that is seen lets its order go on
}
