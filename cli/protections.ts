import type { Db } from '../db/database.ts'
import { findHost } from '../db/hosts.ts'

/** Which protections a host has on and off, for example `['Quota', 'enforced']`. */
export async function hostProtections(db: Db, hostId: string): Promise<[name: string, state: string][]> {
  const host = await findHost(db, hostId)
  if (!host) return [['Protections', 'the host has not reported yet']]
  const silent = host.reachable ? '' : ' (as last seen: the host is silent)'
  return Object.entries(host.protections).map(([name, state]) => [`Protection ${name}`, state + silent])
}
