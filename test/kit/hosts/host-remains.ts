import { readFile } from 'node:fs/promises'
import Docker from 'dockerode'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { HostUnreachable, labels } from '../../../activities/containers/port.ts'
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
  for (const name of containers) await patiently(() => engine.remove(name))
  for (const name of [...networks, buildNetwork(hostId).name]) await patiently(() => engine.removeNetwork(name))
  for (const appId of await volumes.list()) await volumes.remove(appId)
}

/** The engine of a busy machine may take longer for a removal than a host waits: it is called again. */
async function patiently(remove: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await remove()
      return
    } catch (error) {
      if (!(error instanceof HostUnreachable) || tries === 6) throw error
    }
  }
}

/** Bare calls to the engine, for what tests do behind Berth's back. */
export { docker as bareDocker, engine as bareEngine }
