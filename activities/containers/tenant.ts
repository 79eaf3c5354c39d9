import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { ContainerHost } from './port.ts'
import { tenantNetwork } from './spec.ts'

/** Removes the network and control group of an owner without containers from a host. An owner with containers keeps both. */
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
