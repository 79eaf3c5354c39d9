import type { Db } from '../db/database.ts'
import { findHost } from '../db/hosts.ts'

/** Which protections a host has on and off, in one line, for example `quota: enforced, firewall: on`. */
export async function hostProtections(db: Db, hostId: string): Promise<string> {
  const host = await findHost(db, hostId)
  if (!host) return 'the host has not reported yet'
  const words = Object.entries(host.protections).map(([name, state]) => `${name}: ${state}`)
  return words.length ? words.join(', ') : 'none reported'
}
