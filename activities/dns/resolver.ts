import { Resolver } from 'node:dns/promises'
import { FairSlots } from '../../lib/async/fair-slots.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import { dnsRules } from '../../policy/domains/dns-rules.ts'
import { registeredDomain } from '../../policy/domains/names.ts'
import type { Dns, DnsAnswer, RecordType } from './port.ts'

/** Codes of answers without records: there is no such name, or the name has none of this type. */
const notThere = new Set(['ENOTFOUND', 'ENODATA'])

const words: Record<string, string> = {
  ETIMEOUT: 'no name server answered in time',
  ESERVFAIL: 'the name servers reported an error (SERVFAIL)',
  EREFUSED: 'the resolver refused the question',
  ECONNREFUSED: 'no resolver could be reached',
  EBADRESP: 'a name server sent an invalid answer',
  EBADNAME: 'this cannot be a name in DNS',
}

/** DNS by these resolvers (`address` or `address:port`), or those of the system. */
export function resolverDns(servers: readonly string[]): Dns {
  const slots = new FairSlots({ atOnce: dnsRules.atOnce, perSubject: dnsRules.perAsker })
  return {
    async look(name, type, asker = registeredDomain(name)) {
      const leave = await slots.enter(asker, dnsRules.waitMs)
      if (!leave) return { failed: 'too many questions were waiting' }
      try {
        return await answerOf(name, type, servers)
      } finally {
        leave()
      }
    },
  }
}

async function answerOf(name: string, type: RecordType, servers: readonly string[]): Promise<DnsAnswer> {
  // One for each question: it can be cancelled alone, and sees the resolvers that the system has by now.
  const resolver = new Resolver({ timeout: dnsRules.questionMs, tries: dnsRules.tries })
  try {
    if (servers.length > 0) resolver.setServers(servers)
    const late = () => Object.assign(new Error('late'), { code: 'ETIMEOUT' })
    const records = await withTimeout(ask(resolver, name, type), dnsRules.deadlineMs, late)
    if (records.length > dnsRules.maxRecords) return { failed: `there are more than ${dnsRules.maxRecords} records` }
    return { records: records.filter(record => record.length <= dnsRules.maxRecordCharacters) }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return notThere.has(code)
      ? { records: [] }
      : { failed: words[code] ?? `the question failed (${code || 'unknown'})` }
  } finally {
    resolver.cancel()
  }
}

const nameOf = (text: string): string => text.toLowerCase().replace(/\.$/, '')

async function ask(resolver: Resolver, name: string, type: RecordType): Promise<string[]> {
  switch (type) {
    case 'A':
      return resolver.resolve4(name)
    case 'AAAA':
      return resolver.resolve6(name)
    case 'CNAME':
      return (await resolver.resolveCname(name)).map(nameOf)
    case 'TXT':
      return (await resolver.resolveTxt(name)).map(pieces => pieces.join(''))
    case 'CAA':
      return (await resolver.resolveCaa(name)).flatMap(({ critical, ...property }) =>
        Object.entries(property).map(([tag, value]) => `${critical} ${tag} ${value}`),
      )
  }
}
