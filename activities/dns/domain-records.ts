import { domainRecordKey, type ProofRecords, proofRecords } from '../../policy/domains/records.ts'
import type { Sighting, Sightings } from '../../policy/domains/take-over.ts'
import type { Dns, DnsAnswer } from './port.ts'

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
      const of = (accountId: string) => proofRecords(key, { accountId, hostname }, appsDomain)
      const { txt, cname } = of(asking)
      // The name of each record is the same for every account: two questions answer for both.
      const [texts, names] = await Promise.all([dns.look(txt.name, 'TXT'), dns.look(cname.name, 'CNAME')])
      return { asking: sightingsOf(of(asking), texts, names), holding: sightingsOf(of(holding), texts, names) }
    },
  }
}

/** Whether answers have the records of one account. */
export const sightingsOf = ({ txt, cname }: ProofRecords, texts: DnsAnswer, names: DnsAnswer): Sightings => ({
  txt: sighting(texts, txt.value),
  cname: sighting(names, cname.value),
})

function sighting(answer: DnsAnswer, value: string): Sighting {
  if ('failed' in answer) return 'failed'
  return answer.records.includes(value) ? 'seen' : 'missing'
}
