import { domainRecordKey, proofRecords } from '../../policy/domains/records.ts'
import type { Sightings } from '../../policy/domains/take-over.ts'
import { lookForProofs } from './domain-look.ts'
import { type Dns, dnsFor } from './port.ts'

/** Reads the records that prove host names. */
export interface DomainRecords {
  /** What the records derive from. */
  key: Buffer
  /** What DNS says of the records of two accounts for one name. */
  sightings(hostname: string, asking: string, holding: string): Promise<{ asking: Sightings; holding: Sightings }>
}

export function domainRecords(
  dns: Dns,
  { masterKey, appsDomain }: { masterKey: string; appsDomain: string },
): DomainRecords {
  const key = domainRecordKey(masterKey)
  return {
    key,
    async sightings(hostname, asking, holding) {
      const proofs = [asking, holding].map(accountId => proofRecords(key, { accountId, hostname }, appsDomain))
      const { sightings } = await lookForProofs(dnsFor(dns, asking), proofs)
      return { asking: sightings[0]!, holding: sightings[1]! }
    },
  }
}
