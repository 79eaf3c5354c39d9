import { join } from 'node:path'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { type ListedContainer, labels } from '../../activities/containers/port.ts'
import { databaseRole } from '../../activities/databases/names.ts'
import { openVolumes } from '../../activities/volumes/choice.ts'
import type { Config } from '../../policy/config.ts'
import { engines } from '../../policy/databases/engines.ts'

const graceSeconds = 10
/** A container does not tell its engine, so that each gets what the slowest needs to write everything. */
const databaseGraceSeconds = Math.max(...Object.values(engines).map(({ stop }) => stop.graceSeconds))

/** Numbers of containers that were stopped: all of them, and those of databases among them. */
export interface Stopped {
  stopped: number
  stopped_databases: number
}

/**
 * Stops and removes the running containers of one host: the next start creates containers for the applications and databases that
 * should run, whereas an exited container would count as a program that has ended. Databases end by their stop signal.
 */
export async function stopApps(dockerAddress: string, hostId: string): Promise<Stopped> {
  const engine = dockerHost({ dockerHost: dockerAddress, makeRootfs: async () => null })
  const running = (await engine.list({ [labels.host]: hostId })).filter(container => container.running)
  await Promise.all(
    running.map(async container => {
      await engine.stop(container.name, isDatabase(container) ? databaseGraceSeconds : graceSeconds)
      await engine.remove(container.name)
    }),
  )
  return { stopped: running.length, stopped_databases: running.filter(isDatabase).length }
}

const isDatabase = ({ labels: of }: Pick<ListedContainer, 'labels'>): boolean => of[labels.role] === databaseRole

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

/** Unmounts the disks of applications and databases of one host; their content stays, and the next start mounts them again. */
export async function unmountVolumes({ dataDir, host }: Config): Promise<void> {
  const { volumes } = await openVolumes({ root: join(dataDir, 'hosts', host.id), quota: host.quota })
  await volumes.unmountAll()
}
