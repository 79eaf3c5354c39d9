import { bridgeName } from '../../../activities/containers/network-names.ts'
import { type ContainerHost, type ListedContainer, labels } from '../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../activities/containers/spec.ts'
import { databaseRole } from '../../../activities/databases/names.ts'
import type { Admission, Firewall } from '../../../activities/firewall/port.ts'
import { coalesced } from '../../../lib/async/coalesced.ts'

/** What the containers of an owner may reach on a host: the ports of the owner's databases that run. Pure. */
export function databaseAdmissions(containers: readonly ListedContainer[], hostId: string): Admission[] {
  return containers.flatMap(({ running, address, labels: of }) => {
    const ownerId = of[labels.owner]
    const port = Number(of[labels.port])
    // A container with no usable answer must not keep the ports of other databases closed.
    const isWhole = running && address && ownerId && Number.isInteger(port) && port > 0 && port < 65_536
    if (of[labels.role] !== databaseRole || !isWhole) return []
    return [{ bridge: bridgeName(tenantNetwork(ownerId, hostId)), address, port }]
  })
}

export interface AdmittedDatabases {
  engine: Pick<ContainerHost, 'list'>
  /** Null = there is none: then the engine itself keeps containers apart, and applications do not reach databases by name. */
  firewall: Pick<Firewall, 'admit'> | null
  hostId: string
}

/**
 * Opens the ports of the databases that run now to the applications of their owners, and closes all others. Concurrent calls share one
 * turn, which begins after all of them: what ran before a call is open when it resolves.
 */
export function admitDatabases({ engine, firewall, hostId }: AdmittedDatabases): () => Promise<void> {
  const admit = coalesced(async () => {
    const containers = await engine.list({ [labels.host]: hostId, [labels.role]: databaseRole })
    await firewall?.admit(databaseAdmissions(containers, hostId))
  })
  return () => admit(hostId)
}
