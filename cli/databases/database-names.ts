import type { ResolvesName } from '../../api/v2/databases/database-address.ts'
import type { HostRow } from '../../db/hosts/hosts.ts'
import { isLoopbackIPv4 } from '../../lib/addresses.ts'
import { databaseHostname, leadsToHost, publishedAddress } from '../../policy/databases/connection-url.ts'
import type { Finding } from '../doctor/findings.ts'

type NamedHost = Pick<HostRow, 'id' | 'address' | 'forgotten_at' | 'database_domain' | 'database_addresses'>

/** Where several hosts are in use: those whose names of databases do not lead to them, and those that nobody elsewhere reaches. */
export async function databaseNameFindings(
  hosts: readonly NamedHost[],
  resolvesName: ResolvesName,
): Promise<Finding[]> {
  const inUse = hosts.filter(({ forgotten_at: forgottenAt }) => !forgottenAt)
  if (inUse.length < 2) return []
  const found = await Promise.all(inUse.map(host => findingsOf(host, inUse, resolvesName)))
  return found.flat()
}

async function findingsOf(
  host: NamedHost,
  inUse: readonly NamedHost[],
  resolvesName: ResolvesName,
): Promise<Finding[]> {
  const { id, address, database_domain: domain, database_addresses: addresses } = host
  // A host of an older version says nothing until it is upgraded.
  if (domain === null) return []
  const name = `Databases on ${id}`
  const restart = 'restart its process, and stop and start its databases'
  if (addresses?.every(isLoopbackIPv4) && !isLoopbackIPv4(address))
    return [
      {
        name,
        state: `PUBLISHED AT ${addresses.join(', ')} ONLY: programs elsewhere do not reach them`,
        remedy: `set DATABASE_BIND of ${id} to an address that clients reach, such as 0.0.0.0, ${restart}`,
      },
    ]
  const addressesOfName = await resolvesName(databaseHostname('name', domain))
  if (leadsToHost(host, inUse, addressesOfName)) return []
  const shared = inUse.filter(other => other !== host && other.database_domain?.toLowerCase() === domain.toLowerCase())
  const sharing = shared.length ? `, a domain that ${shared.map(other => other.id).join(', ')} has too,` : ''
  const whither = addressesOfName.length ? `lead to ${addressesOfName.join(', ')}` : 'lead nowhere'
  return [
    {
      name,
      state: `NAMES DO NOT LEAD THERE: names in ${domain}${sharing} ${whither}: URLs of new databases have the address ${publishedAddress(host, inUse)}`,
      remedy: `give ${id} a DATABASE_DOMAIN of its own with a record *.<domain> that leads to this host, ${restart}`,
    },
  ]
}
