import { isIPv4 } from 'node:net'
import { isLoopbackIPv4 } from '../../lib/addresses.ts'
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
  if (bind !== allNetworks) return { domain, addresses: [bind] }
  const all = [...new Set([address, ...own])].filter(each => isIPv4(each))
  return { domain, addresses: [...all.filter(each => !isLoopbackIPv4(each)), ...all.filter(isLoopbackIPv4)] }
}

/** What a host has registered, also one of an older version, which registers no place. */
export interface PlacedHost {
  id: string
  address: string
  database_domain: string | null
  database_addresses: readonly string[] | null
}

/** The domain of the databases of a host; `fallback` for one of an older version, which shares the setting of the process that calls this. */
export const databaseDomain = (host: Pick<PlacedHost, 'database_domain'> | undefined, fallback: string): string =>
  host?.database_domain ?? fallback

/** The address in URLs of databases whose name does not lead to their host; `hosts` are all that are in use. */
export const publishedAddress = (host: PlacedHost, hosts: readonly PlacedHost[]): string =>
  addressesOf(host, hosts)[0] ?? host.address

/**
 * Whether a name in the domain of a host leads to where its databases listen, by the addresses that the name resolves to; `hosts` are all
 * that are in use. Ports are unique on each host only: at another one the same port may be a database of another account. So a name that
 * cannot be told apart leads nowhere: one in a domain that several hosts have, or with an address of another host. An address that no host
 * has may belong to what forwards connections to this one.
 */
export function leadsToHost(host: PlacedHost, hosts: readonly PlacedHost[], resolved: readonly string[]): boolean {
  if (host.database_domain === null) return resolved.length > 0
  const addresses = resolved.filter(address => isIPv4(address))
  const own = addressesOf(host, hosts)
  if (addresses.length === 0) return false
  if (addresses.every(address => own.includes(address))) return true
  // Loopback is the client's own machine.
  if (addresses.some(address => isLoopbackIPv4(address) || address === host.address)) return false
  const domain = host.database_domain.toLowerCase()
  return hosts
    .filter(({ id }) => id !== host.id)
    .every(other => {
      const taken = [other.address, ...(other.database_addresses ?? [])]
      return other.database_domain?.toLowerCase() !== domain && !addresses.some(address => taken.includes(address))
    })
}

/**
 * Where clients can reach the databases of a host, the best address first. Next to other hosts loopback is none of its own, unless all are on
 * one machine: there it is another host, or nothing.
 */
function addressesOf({ id, address, database_addresses: listed }: PlacedHost, hosts: readonly PlacedHost[]): string[] {
  const isAlone = hosts.every(other => other.id === id)
  return (listed ?? [address]).filter(each => isAlone || isLoopbackIPv4(address) || !isLoopbackIPv4(each))
}
