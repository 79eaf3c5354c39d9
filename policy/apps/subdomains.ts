/** The platform's own names beside the applications' under one development domain, and those of databases. */
const reservedNames = new Set(['api', 'blob', 's3', 'files', 'www'])

const reservedPrefix = 'db-'

/** Whether no application may have this subdomain (SUBDOMAIN_TAKEN). Lower case. */
export function isReservedSubdomain(subdomain: string): boolean {
  return reservedNames.has(subdomain) || subdomain.startsWith(reservedPrefix)
}

/**
 * Whether browsers would show this subdomain in letters of other scripts, which may look like those of somebody else's. No new
 * application gets one (INVALID_SUBDOMAIN); those that have one keep it. Lower case.
 */
export function isEncodedSubdomain(subdomain: string): boolean {
  return subdomain.startsWith('xn--')
}
