import type { HostRow } from '../../db/hosts/hosts.ts'
import type { Finding } from './findings.ts'

/** What builds of a host use to reach the network, and their images, as the host reported it; nothing before it has. */
export function buildFindings(host: Pick<HostRow, 'builds'> | undefined): Finding[] {
  return Object.entries(host?.builds ?? {}).map(([name, { state, remedy }]) => ({
    name: `build ${name}`,
    state,
    remedy: remedy ?? undefined,
  }))
}
