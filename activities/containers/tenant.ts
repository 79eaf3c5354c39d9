import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { ContainerHost } from './port.ts'
import { tenantNetwork } from './spec.ts'

/** Removes what an owner without containers still has of a host: a network, and a group of processes. One that has some keeps both. */
export async function removeTenant(
  engine: Pick<ContainerHost, 'removeNetwork' | 'removeShare'>,
  ownerId: string,
  hostId: string,
): Promise<void> {
  await engine
    .removeNetwork(tenantNetwork(ownerId, hostId).name)
    .catch(ignoreError('other containers of the account use it'))
  await engine.removeShare(ownerId).catch(ignoreError('other containers of the account use it'))
}
