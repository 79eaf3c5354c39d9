import { isIPv4 } from 'node:net'
import type { EngineName } from './engine.ts'
import { engines } from './engines.ts'

export interface DatabaseAddress {
  /** A host name or an IPv4 address. */
  host: string
  port: number
}

/** The customer's user in every engine, and the name of the database it owns in engines with several. */
export const customerUser = 'default'

/** The name of a database in the domain of applications; applications of its owner reach it by this name too. */
export const databaseHostname = (id: string, domain: string): string => `db-${id}.${domain}`

/** URL with which a driver connects over TLS. */
export function connectionUrl(engine: EngineName, { host, port }: DatabaseAddress, password: string): string {
  const { scheme, path, query } = engines[engine].url
  return `${scheme}://${customerUser}:${password}@${host}:${port}${path}${query && `?${query}`}`
}

/** Where clients reach the databases of one host. */
export interface DatabasePlace {
  /** Suffix of their names. */
  domain: string
  /** IPv4 addresses at which they listen, that of URLs first. */
  addresses: readonly string[]
}

/** The setting that opens databases to all networks. */
export const allNetworks = '0.0.0.0'

/** The place of a host whose databases listen at `bind`; `own` are the addresses of its machine that others can have a route to. */
export function databasePlace(
  { domain, bind }: { domain: string; bind: string },
  address: string,
  own: readonly string[],
): DatabasePlace {
  return { domain, addresses: bind === allNetworks ? [...new Set([address, ...own])] : [bind] }
}

/** What a host has registered, also one of an older version, which registers no place. */
export interface PlacedHost {
  id: string
  address: string
  database_domain: string | null
  database_addresses: readonly string[] | null
}

/** The domain of the databases of a host; `fallback` for one of an older version, which shares the setting of whoever asks. */
export const databaseDomain = (host: Pick<PlacedHost, 'database_domain'> | undefined, fallback: string): string =>
  host?.database_domain ?? fallback

/** The address in URLs of databases whose name does not lead to their host. */
export const publishedAddress = ({ address, database_addresses: addresses }: PlacedHost): string =>
  addresses?.[0] ?? address

/**
 * Whether a name in the domain of a host leads to it, by the addresses that were found for the name; `hosts` are all that are in use. Ports
 * are unique on each host only: at another one the same port may be a database of another account. So a name that cannot be told apart
 * leads nowhere: one in a domain that several hosts have, or with an address of another host. An address that no host has may belong to
 * what forwards connections to this one.
 */
export function leadsToHost(host: PlacedHost, hosts: readonly PlacedHost[], found: readonly string[]): boolean {
  if (found.length === 0 || host.database_domain === null) return found.length > 0
  const addresses = found.filter(address => isIPv4(address))
  const own = [host.address, ...(host.database_addresses ?? [])]
  if (addresses.length > 0 && addresses.every(address => own.includes(address))) return true
  const domain = host.database_domain.toLowerCase()
  return hosts
    .filter(({ id }) => id !== host.id)
    .every(other => {
      const taken = [other.address, ...(other.database_addresses ?? [])]
      return other.database_domain?.toLowerCase() !== domain && !addresses.some(address => taken.includes(address))
    })
}
