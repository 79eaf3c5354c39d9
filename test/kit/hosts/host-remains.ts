import { readFile } from 'node:fs/promises'
import Docker from 'dockerode'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { labels } from '../../../activities/containers/port.ts'
import { buildNetwork } from '../../../activities/containers/spec.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import type { Volumes } from '../../../activities/volumes/port.ts'
import { dockerAddress } from '../servers/docker.ts'

const docker = new Docker({ socketPath: dockerAddress.replace('unix://', '') })
const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: () => Promise.reject(new Error('not in tests')) })

/** As the host chose them, without trying again what this machine can. */
const volumesOf = (root: string): Volumes =>
  process.getuid?.() === 0 ? loopVolumes(root) : folderVolumes(`${root}/folders`)

/** Everything a container host has on this machine for applications, by name. Empty lists = nothing is left. The network of builds is the host's. */
export async function remainsOf(root: string, hostId: string) {
  const volumes = volumesOf(`${root}/hosts/${hostId}`)
  const networks = await engine.listNetworks({ [labels.host]: hostId })
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map(line => line.split(' ')[1] ?? '')
  return {
    containers: (await engine.list({ [labels.host]: hostId })).map(({ name }) => name),
    networks: networks.map(({ name }) => name).filter(name => name !== buildNetwork(hostId).name),
    volumes: await volumes.list(),
    mounts: mounts.filter(place => place.startsWith(`${root}/hosts/${hostId}/`)),
  }
}

/** Removes everything that a test's container host has left on this machine. */
export async function clearHost(root: string, hostId: string): Promise<void> {
  const volumes = volumesOf(`${root}/hosts/${hostId}`)
  const { containers, networks } = await remainsOf(root, hostId)
  await Promise.all(containers.map(name => engine.remove(name)))
  for (const name of [...networks, buildNetwork(hostId).name]) await engine.removeNetwork(name)
  for (const appId of await volumes.list()) await volumes.remove(appId)
}

/** Bare calls to the engine, for what tests do behind Berth's back. */
export { docker as bareDocker, engine as bareEngine }
