import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { dockerHost } from '../../activities/containers/docker/host.ts'
import { type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import { databaseRole } from '../../activities/databases/names.ts'
import { stoppedList } from '../../activities/hosts/stopped-list.ts'
import { openVolumes } from '../../activities/volumes/choice.ts'
import { eachConcurrently } from '../../lib/async/concurrently.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { Config } from '../../policy/config.ts'
import { engines } from '../../policy/databases/engines.ts'

const graceSeconds = 10
/** A container does not tell its engine, so that each gets what the slowest needs to write everything. */
const databaseGraceSeconds = Math.max(...Object.values(engines).map(({ stop }) => stop.graceSeconds))

/** How many containers end at a time: an engine that is sent all at once answers none in time. */
const atOnce = 8
const attempts = 3
const againMs = 1000

/** A container that could not be ended, and why. */
export interface Left {
  name: string
  reason: string
}

/** Numbers of containers that were stopped: all of them, and those of databases among them. */
export interface Stopped {
  stopped: number
  stopped_databases: number
  left: Left[]
}

/** A host of this machine: its engine, its name and its folder. */
export interface EndedHost {
  engine: Pick<ContainerHost, 'list' | 'stop' | 'remove'>
  hostId: string
  folder: string
}

/** The host of an installation on this machine. */
export function endedHost({ dataDir, host }: Config) {
  const engine = dockerHost({ dockerHost: host.dockerHost, makeRootfs: async () => null })
  return { engine, hostId: host.id, folder: join(dataDir, 'hosts', host.id) }
}

/**
 * Stops and removes the running containers of one host: the next start creates containers for the applications and databases that
 * should run, whereas an exited container would count as a program that has ended. So it also removes what an earlier attempt has stopped
 * only. Databases end by their stop signal. Tries each one 3 times, and resolves to those that are left too.
 */
export async function stopApps({ engine, hostId, folder }: EndedHost): Promise<Stopped> {
  const list = stoppedList(folder)
  const before = new Set(await list.read())
  const ending = (await engine.list({ [labels.host]: hostId })).filter(one => one.running || before.has(one.name))
  // A full disk must not keep everything running.
  await list.write(ending.map(({ name }) => name)).catch(ignoreError('it only matters if this is interrupted'))
  const left = await endEach(ending, async one => {
    await engine.stop(one.name, isDatabase(one) ? databaseGraceSeconds : graceSeconds)
    await engine.remove(one.name)
  })
  await list.write(left.map(({ name }) => name)).catch(ignoreError('what is left is reported'))
  const names = new Set(left.map(({ name }) => name))
  const stopped = ending.filter(({ name }) => !names.has(name))
  return { stopped: stopped.length, stopped_databases: stopped.filter(isDatabase).length, left }
}

/** Ends some containers at a time, each in a few attempts; resolves to those that are left, once all were tried. */
async function endEach<T extends { name: string }>(all: readonly T[], end: (one: T) => Promise<void>): Promise<Left[]> {
  const left: Left[] = []
  await eachConcurrently(all, atOnce, async one => {
    for (let attempt = 1; ; attempt++) {
      const error: unknown = await end(one).catch(error => error ?? 'unknown')
      if (error === undefined) return
      if (attempt === attempts) return left.push({ name: one.name, reason: (error as Error).message })
      await sleep(againMs)
    }
  })
  return left
}

const isDatabase = ({ labels: of }: Pick<ListedContainer, 'labels'>): boolean => of[labels.role] === databaseRole

/** The names of what an engine had of one installation. */
export interface Forgotten {
  containers: string[]
  networks: string[]
  left: Left[]
}

/**
 * Removes every container and network of one host, running or not; those of other installations stay. Files and rows stay too,
 * so the next start creates both again. While a container is left, networks stay.
 */
export async function forgetApps(host: ReturnType<typeof endedHost>): Promise<Forgotten> {
  const { engine, hostId } = host
  const present = await engine.list({ [labels.host]: hostId })
  await stopApps(host)
  const left = await endEach(present, ({ name }) => engine.remove(name))
  const names = new Set(left.map(({ name }) => name))
  const containers = present.map(({ name }) => name).filter(name => !names.has(name))
  if (left.length > 0) return { containers, networks: [], left }
  await stoppedList(host.folder).write([])
  const networks = (await engine.listNetworks({ [labels.host]: hostId })).map(({ name }) => name)
  for (const name of networks) await engine.removeNetwork(name)
  for (const ownerId of new Set(present.flatMap(({ labels: of }) => of[labels.owner] ?? [])))
    await engine.removeShare(ownerId)
  return { containers, networks, left }
}

/** Unmounts the disks of applications and databases of one host; their content stays, and the next start mounts them again. */
export async function unmountVolumes({ dataDir, host }: Config): Promise<void> {
  const { volumes } = await openVolumes({ root: join(dataDir, 'hosts', host.id), quota: host.quota })
  await volumes.unmountAll()
}
