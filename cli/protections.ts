import type { Db } from '../db/database.ts'
import { findHost } from '../db/hosts.ts'

/** Which protections a host has on and off, for example `['Quota', 'enforced']`. */
export async function hostProtections(db: Db, hostId: string): Promise<[name: string, state: string][]> {
  const host = await findHost(db, hostId)
  if (!host) return [['Protections', 'the host has not reported yet']]
  return Object.entries(host.protections).map(([name, state]) => [`Protection ${name}`, state])
}
