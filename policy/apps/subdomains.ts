/** Names of the platform under a development domain that it shares with applications. Databases have `reservedPrefix`. */
const reservedNames = new Set(['api', 'blob', 's3', 'files', 'www'])

const reservedPrefix = 'db-'

/** Whether the platform reserves this subdomain (SUBDOMAIN_TAKEN). Lower case. */
export function isReservedSubdomain(subdomain: string): boolean {
  return reservedNames.has(subdomain) || subdomain.startsWith(reservedPrefix)
}

/**
 * Whether browsers would show this subdomain in another script, where it may look like a different name. New applications cannot have
 * one (INVALID_SUBDOMAIN); existing applications keep theirs. Lower case.
 */
export function isEncodedSubdomain(subdomain: string): boolean {
  return subdomain.startsWith('xn--')
}
