import { join } from 'node:path'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { labels } from '../../activities/containers/port.ts'
import { openVolumes } from '../../activities/volumes/choice.ts'
import type { Config } from '../../policy/config.ts'

const graceSeconds = 10

/**
 * Stops and removes the running containers of one host: the next start creates containers for the applications that should run,
 * whereas an exited container would count as a program that has ended. Resolves to their number.
 */
export async function stopApps(dockerAddress: string, hostId: string): Promise<number> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: async () => null })
  const running = (await engine.list({ [labels.host]: hostId })).filter(container => container.running)
  await Promise.all(running.map(({ name }) => engine.stop(name, graceSeconds).then(() => engine.remove(name))))
  return running.length
}

/** The names of what an engine had of one installation. */
export interface Forgotten {
  containers: string[]
  networks: string[]
}

/**
 * Removes every container and network of one host, running or not; those of other installations stay. Files and rows stay too,
 * so the next start creates both again.
 */
export async function forgetApps(dockerAddress: string, hostId: string): Promise<Forgotten> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: async () => null })
  const present = await engine.list({ [labels.host]: hostId })
  const containers = present.map(({ name }) => name)
  await stopApps(dockerAddress, hostId)
  await Promise.all(containers.map(name => engine.remove(name)))
  const networks = (await engine.listNetworks({ [labels.host]: hostId })).map(({ name }) => name)
  for (const name of networks) await engine.removeNetwork(name)
  for (const ownerId of new Set(present.flatMap(({ labels: of }) => of[labels.owner] ?? [])))
    await engine.removeShare(ownerId)
  return { containers, networks }
}

/** Unmounts the applications' disks of one host; their content stays, and the next start mounts them again. */
export async function unmountVolumes({ dataDir, host }: Config): Promise<void> {
  const { volumes } = await openVolumes({ root: join(dataDir, 'hosts', host.id), quota: host.quota })
  await volumes.unmountAll()
}
