import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { getDomain, getPublicSuffix } from 'tldts'
import type { Config } from '../config.ts'
import { CodedError } from '../errors.ts'
import { challengePrefix, withoutWildcard } from './records.ts'

/** Bounds of host names in DNS (RFC 1035). */
const nameLimits = { labelCharacters: 63, nameCharacters: 253, minLabels: 2 } as const

/** More than any name has before it is encoded; longer texts are not converted at all. */
const maxTypedCharacters = 1024
/** The longest record below a name has to fit too. */
const maxCharacters = nameLimits.nameCharacters - challengePrefix.length

/** Special-use names, with all below them. `test` is not among them: such a name cannot be owned, and a closed network may use it. */
const reservedZones = ['localhost', 'local', 'internal', 'arpa', 'onion', 'invalid']

/** ASCII other than that of names: a URL parser would read an escape, a port, a path or an address into it. */
const foreignAscii = /[\x00-,/:-@[-`{-\x7f]/

const label = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/

/**
 * The host name that a customer typed, in the form of DNS: lower case, and punycode for other scripts. Throws an CodedError with
 * INVALID_DOMAIN, or RESERVED_DOMAIN for what cannot be proved and for the platform's own domains (`platformDomains`).
 */
export function customHostname(typed: string, ownDomains: readonly string[]): string {
  const hostname = normalizedName(typed)
  if (hostname === null) throw new CodedError('INVALID_DOMAIN')
  const zone = [...reservedZones, ...ownDomains].find(one => isHostnameWithin(hostname, one))
  if (zone !== undefined)
    throw new CodedError('RESERVED_DOMAIN', `Names below ${zone} cannot be used. Use a name of your own domain.`)
  if (hostname.split('.').length < nameLimits.minLabels) throw new CodedError('INVALID_DOMAIN')
  if (getPublicSuffix(hostname, { allowPrivateDomains: true }) === hostname)
    throw new CodedError(
      'RESERVED_DOMAIN',
      `Everyone registers names below ${hostname}. Use a name of your own domain.`,
    )
  return hostname
}

/** A typed name in the form in which rows have it, also a wildcard of the platform; null for what is no name. */
export function storedName(typed: string): string | null {
  const [, wildcard = '', rest = ''] = /^(\*\.)?(.*)$/s.exec(typed.trim()) ?? []
  const name = normalizedName(rest)
  return name && wildcard + name
}

/** The domain that somebody has registered for a name: `example.com` for `shop.example.com`. Authorities count by it. */
export function registeredDomain(hostname: string): string {
  const name = withoutWildcard(hostname)
  return getDomain(name, { allowPrivateDomains: true }) ?? name
}

/** A typed name as DNS has it; null for what is none. */
function normalizedName(typed: string): string | null {
  const trimmed = typed.trim()
  if (trimmed.length > maxTypedCharacters || foreignAscii.test(trimmed)) return null
  const hostname = domainToASCII(trimmed.toLowerCase()).replace(/\.$/, '')
  const labels = hostname.split('.')
  const isName = labels.every(text => label.test(text) && text.length <= nameLimits.labelCharacters)
  return isName && hostname.length <= maxCharacters && !isIP(hostname) ? hostname : null
}

/** Whether a name is a domain or below it. Lower case. */
export const isHostnameWithin = (hostname: string, domain: string): boolean =>
  hostname === domain || hostname.endsWith(`.${domain}`)

type Names = Pick<Config, 'appsDomain'> & {
  edge: Pick<Config['edge'], 'domain' | 'names'>
  databases: Pick<Config['databases'], 'domain'>
  domains: Pick<Config['domains'], 'acmeDnsDomain'>
}

/** Domains of the platform: no account may use one of them or a name below. */
export function platformDomains({ appsDomain, edge, databases, domains }: Names): string[] {
  const others = [databases.domain, ...Object.values(edge.names), domains.acmeDnsDomain ?? edge.domain]
  return [...new Set([edge.domain, appsDomain, ...others].map(name => name.toLowerCase()))]
}
