import { dockerHost } from '../../activities/container-host.docker.ts'
import { labels } from '../../activities/container-host.ts'

const graceSeconds = 10

/** Stops the running containers of one host. Resolves to how many there were. */
export async function stopApps(dockerAddress: string, hostId: string): Promise<number> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: async () => null })
  const running = (await engine.list({ [labels.host]: hostId })).filter(container => container.running)
  await Promise.all(running.map(container => engine.stop(container.name, graceSeconds)))
  return running.length
}
