import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { connectionsOf, engines } from '../../policy/databases/engines.ts'
import { type ContainerSpec, labels } from '../containers/port.ts'
import { type HostTraits, tenantNetwork } from '../containers/spec.ts'
import { databaseContainerName, databaseJobName, databaseJobRole, databaseRole } from './names.ts'
import { places } from './port.ts'

/** Folders of a database's volume on its host. */
export interface DatabaseFolders {
  data: string
  settings: string
  run: string
}

export const foldersOf = (volume: string): DatabaseFolders => ({
  data: `${volume}/files`,
  settings: `${volume}/settings`,
  run: `${volume}/run`,
})

/** File in the folder of settings that is /etc/passwd of the container: engines want a name for their user, and one for the host's. */
export const passwdFile = 'passwd'

export const passwdOf = (uid: number): string =>
  `root:x:0:0:root:/:/bin/false\nberth:x:${uid}:${uid}:berth:${places.data}:/bin/false\n`

/** Of a container that makes a data folder or serves privately at least, and of one that dumps or loads. */
export const jobMemoryMb = 1024

/** Memory in MB of a container that makes a data folder, or in which an engine serves without reachable ports. */
export const jobMemoryOf = ({ ramMb }: Pick<DatabaseFacts, 'ramMb'>): number => Math.max(jobMemoryMb, ramMb)

/** The container that serves a database: its engine on the data folder, with its port published under the same number. */
export function databaseContainer(
  database: DatabaseFacts,
  folders: DatabaseFolders,
  command: string[],
  { hostname, address, host }: { hostname: string; address: string; host: HostTraits },
): ContainerSpec {
  const { id, ownerId, generation, port, engine, ramMb } = database
  const { stop } = engines[engine]
  return {
    ...common(database, folders, command, host),
    name: databaseContainerName({ id, generation }),
    labels: {
      ...{ ...labelsOf(database, host), [labels.role]: databaseRole, [labels.port]: String(port) },
      [labels.ownerConnections]: String(connectionsOf(engine, ramMb).owner),
    },
    memoryMb: ramMb,
    network: tenantNetwork(ownerId, host.id).name,
    aliases: [hostname],
    publish: { port, address, hostPort: port },
    stopSignal: stop.signal,
    stopTimeoutSeconds: stop.graceSeconds,
  }
}

/** A container without a network for a step that makes the data folder. It is removed afterwards. */
export function databaseJob(
  database: DatabaseFacts,
  folders: DatabaseFolders,
  command: string[],
  host: HostTraits,
): ContainerSpec {
  const { id, generation, engine } = database
  const { stop } = engines[engine]
  return {
    ...common(database, folders, command, host),
    name: databaseJobName({ id, generation }),
    labels: { ...labelsOf(database, host), [labels.role]: databaseJobRole },
    memoryMb: jobMemoryOf(database),
    network: 'none',
    publish: null,
    stopSignal: stop.signal,
    stopTimeoutSeconds: stop.graceSeconds,
  }
}

function common(database: DatabaseFacts, folders: DatabaseFolders, command: string[], host: HostTraits) {
  const { ownerId, uid, image, imageId, ramMb, cpus, engine } = database
  return {
    image: imageId ?? image,
    command,
    // The engine's files and its administrator's clients are all in UTF-8 and UTC.
    env: { HOME: places.data, LANG: 'C.UTF-8', TZ: 'UTC' },
    user: `${uid}:${uid}`,
    workingDir: places.data,
    cpus,
    // Three of the engines have a process or thread for each connection, and others besides.
    pidsLimit: Math.max(connectionsOf(engine, ramMb).inAll + 128, Math.floor(ramMb / 4)),
    // Parallel queries of Postgres share memory there; the engine's default is 64 MB.
    shmMb: engine === 'postgres' ? Math.max(64, Math.floor(ramMb / 4)) : 64,
    binds: [
      { source: folders.data, target: places.data, readOnly: false },
      { source: folders.run, target: places.run, readOnly: false },
      { source: folders.settings, target: places.settings, readOnly: true },
      { source: `${folders.settings}/${passwdFile}`, target: '/etc/passwd', readOnly: true },
    ],
    tmpMb: 64,
    runtime: host.runtime,
    share: ownerId,
  }
}

function labelsOf({ id, ownerId, generation }: DatabaseFacts, host: HostTraits): Record<string, string> {
  return {
    [labels.host]: host.id,
    [labels.database]: id,
    [labels.owner]: ownerId,
    [labels.release]: String(generation),
  }
}
