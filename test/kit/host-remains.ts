import { readFile } from 'node:fs/promises'
import Docker from 'dockerode'
import { dockerHost } from '../../activities/container-host.docker.ts'
import { labels } from '../../activities/container-host.ts'
import { openVolumes } from '../../activities/volume-choice.ts'
import { dockerAddress } from './docker.ts'

const docker = new Docker({ socketPath: dockerAddress.replace('unix://', '') })
const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: () => Promise.reject(new Error('not in tests')) })

/** Everything a container host has on this machine, by name. Empty lists = nothing is left. */
export async function remainsOf(root: string, hostId: string) {
  const { volumes } = await openVolumes({ root: `${root}/hosts/${hostId}`, quota: 'auto' })
  const networks = await docker.listNetworks({ filters: { label: [`${labels.host}=${hostId}`] } })
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map(line => line.split(' ')[1] ?? '')
  return {
    containers: (await engine.list({ [labels.host]: hostId })).map(({ name }) => name),
    networks: networks.map(({ Name }) => Name),
    volumes: await volumes.list(),
    mounts: mounts.filter(place => place.startsWith(`${root}/hosts/${hostId}/`)),
  }
}

/** Takes away everything that a container host of a test has left on this machine. */
export async function clearHost(root: string, hostId: string): Promise<void> {
  const { volumes } = await openVolumes({ root: `${root}/hosts/${hostId}`, quota: 'auto' })
  const { containers, networks } = await remainsOf(root, hostId)
  await Promise.all(containers.map(name => engine.remove(name)))
  for (const name of networks) await engine.removeNetwork(name)
  for (const appId of await volumes.list()) await volumes.remove(appId)
}

/** Bare calls to the engine, for what tests do behind Berth's back. */
export { docker as bareDocker, engine as bareEngine }
