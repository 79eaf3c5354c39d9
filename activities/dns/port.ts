export type RecordType = 'A' | 'AAAA' | 'CNAME' | 'TXT' | 'CAA'

/**
 * Records, none if the name or the type does not exist, or why there is no answer, in words. A TXT record is one text, whatever pieces it
 * came in; names are in lower case without a final dot; a CAA record is `<flags> <tag> <value>`.
 */
export type DnsAnswer = { records: string[] } | { failed: string }

/** The domain name system, read by its resolvers. It never rejects: an answer that is not there is one of two kinds. */
export interface Dns {
  /** `asker`: the account behind the question, which has a few questions at a time; by default the registered domain. */
  look(name: string, type: RecordType, asker?: string): Promise<DnsAnswer>
}

/** The same, on behalf of one account. */
export const dnsFor = (dns: Dns, asker: string): Dns => ({ look: (name, type) => dns.look(name, type, asker) })
