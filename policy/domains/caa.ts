/** Names whose CAA records count for a host name (RFC 8659, section 3), in this order: those of the first name that has any. */
export function caaNames(hostname: string): string[] {
  const labels = hostname.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

interface Property {
  isCritical: boolean
  tag: string
  value: string
}

/** Bit of a record: an authority that does not know the tag must not issue. */
const criticalBit = 128
const knownTags = new Set(['issue', 'issuewild', 'iodef', 'issuemail', 'contactemail', 'contactphone', 'issuevmc'])

/**
 * Why the CAA records of a name, each `<flags> <tag> <value>`, forbid an authority with these names to issue a certificate; null if they
 * permit it. `foundAt`: the name that has them.
 */
export function caaRefusal(
  { foundAt, records }: { foundAt: string; records: readonly string[] },
  authority: readonly string[],
  isWildcard: boolean,
): string | null {
  const properties = records.map(propertyOf)
  const unknown = properties.find(({ isCritical, tag }) => isCritical && !knownTags.has(tag))
  if (unknown)
    return `A CAA record of ${foundAt} has the critical tag "${unknown.tag.slice(0, 20)}", which authorities do not know. Remove it.`
  const ofTag = (name: string) => properties.filter(({ tag }) => tag === name)
  const wild = isWildcard ? ofTag('issuewild') : []
  const counting = wild.length > 0 ? wild : ofTag('issue')
  if (counting.length === 0 || authority.length === 0) return null
  // Parameters after a semicolon restrict accounts and methods; the authority compares them.
  const issuers = counting.map(({ value }) => value.split(';')[0]!.trim().toLowerCase())
  if (issuers.some(issuer => authority.includes(issuer))) return null
  const tag = wild.length > 0 ? 'issuewild' : 'issue'
  return `The CAA records of ${foundAt} do not permit certificates of ${authority[0]}. Add the record: ${foundAt} CAA 0 ${tag} "${authority[0]}".`
}

function propertyOf(record: string): Property {
  const [, flags = '0', tag = '', value = ''] = /^(\d+) (\S+) ?(.*)$/s.exec(record) ?? []
  return { isCritical: (Number(flags) & criticalBit) !== 0, tag: tag.toLowerCase(), value }
}
