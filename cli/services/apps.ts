import { join } from 'node:path'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { labels } from '../../activities/containers/port.ts'
import { openVolumes } from '../../activities/volumes/choice.ts'
import type { Config } from '../../policy/config.ts'

const graceSeconds = 10

/**
 * Stops the running containers of one host, and takes them away: the next start makes anew what should run and has no
 * container, while an exited one would count as a program that has ended. Resolves to how many there were.
 */
export async function stopApps(dockerAddress: string, hostId: string): Promise<number> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: async () => null })
  const running = (await engine.list({ [labels.host]: hostId })).filter(container => container.running)
  await Promise.all(running.map(({ name }) => engine.stop(name, graceSeconds).then(() => engine.remove(name))))
  return running.length
}

/** What of one installation an engine had, by name. */
export interface Forgotten {
  containers: string[]
  networks: string[]
}

/**
 * Takes every container and network of one host away, running or not; what other installations have stays. Files and rows stay
 * too, so the next start makes both anew.
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

/** Unmounts the applications' disks of one host; what they hold stays, and the next start mounts it again. */
export async function unmountVolumes({ dataDir, host }: Config): Promise<void> {
  const { volumes } = await openVolumes({ root: join(dataDir, 'hosts', host.id), quota: host.quota })
  await volumes.unmountAll()
}
