import type { DomainRecords } from '../../../activities/dns/domain-records.ts'
import type { TtlCache } from '../../../lib/async/ttl-cache.ts'
import type { ShownRecord } from '../../../policy/domains/records.ts'
import type { Domains } from '../../../workflows/client.ts'

/** What endpoints of domains need. */
export interface DomainServices {
  domains: Domains
  /** What DNS says of the records of an account. */
  domainRecords: DomainRecords
  /** Shown records, by application and host name. */
  dnsRecords: TtlCache<ShownRecord[]>
}
