import { targetPrefix } from '../domains/records.ts'

/** Names of the platform under a development domain that it shares with applications. */
const reservedNames = new Set(['api', 'blob', 's3', 'files', 'www'])

/** Of databases, and of the targets that prove custom domains: the owner of such a subdomain would own a customer's name. */
const reservedPrefixes = ['db-', targetPrefix]

/** Whether the platform reserves this subdomain (SUBDOMAIN_TAKEN). Lower case. */
export function isReservedSubdomain(subdomain: string): boolean {
  return reservedNames.has(subdomain) || reservedPrefixes.some(prefix => subdomain.startsWith(prefix))
}

/**
 * Whether browsers would show this subdomain in another script, where it may look like a different name. New applications cannot have
 * one (INVALID_SUBDOMAIN); existing applications keep theirs. Lower case.
 */
export function isEncodedSubdomain(subdomain: string): boolean {
  return subdomain.startsWith('xn--')
}
