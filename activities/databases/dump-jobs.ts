import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import type { ContainerHost, ContainerSpec, DiskLimits } from '../containers/port.ts'
import type { HostTraits } from '../containers/spec.ts'
import { type DatabaseFolders, databaseJob, jobMemoryMb } from './container.ts'
import { dumpPlace, type EngineJob, type HeardDump } from './contents.ts'
import type { HostedEngines } from './hosted-engine.ts'
import { databaseVolume } from './names.ts'
import { places } from './port.ts'

/** What a container on a volume may read and write, as an engine that serves: a copy takes no more of the disk than its database. */
export type VolumeLimits = (volume: string) => Promise<DiskLimits | null>

interface Limiting {
  /** Omitted = no limits. */
  disk?: VolumeLimits | undefined
}

/** The limits of containers on the volume of a database; null = none. */
export const diskOf = async ({ disk }: Limiting, database: DatabaseFacts): Promise<DiskLimits | null> =>
  (await disk?.(databaseVolume(database))) ?? null

/** A container without a network on the volume of a database, with the limits of its disk. */
export async function limitedJob(
  options: Limiting & { hosted: HostedEngines; traits: HostTraits },
  database: DatabaseFacts,
  command: string[],
): Promise<ContainerSpec> {
  const job = databaseJob(database, options.hosted.foldersOf(database), command, options.traits)
  return { ...job, disk: await diskOf(options, database) }
}

/** A folder for a dump, in a volume of its own. */
export interface DumpFolder {
  folder: string
  /** Limits of the containers that work in it; null = none. */
  disk: DiskLimits | null
}

export interface DumpJobOptions {
  engine: ContainerHost
  traits: HostTraits
  database: DatabaseFacts
  /** Those of the engine whose data leave or come. */
  folders: DatabaseFolders
  /** The folder with the dump, on this host. */
  dump: string
  /** Disk limits of the volume that jobs write, or else read: they take no more of the disk than an engine. Omitted = none. */
  disk?: DiskLimits | null | undefined
  /** Whether jobs may write the data folder, because the engine was never started on it. */
  writesData: boolean
  signal: AbortSignal
  heard?: HeardDump | undefined
}

const lastOutputBytes = 4096

/** Containers that dump or load, one at a time under one name: a container that a killed host left is removed before the next. */
export function dumpJob(options: DumpJobOptions): EngineJob {
  const { engine, traits, database, folders, dump, disk, writesData, signal, heard } = options
  return {
    folder: dump,
    heard,
    data: folders.data,
    async run(command, { signal: ending, hear } = {}) {
      const job = databaseJob(database, folders, command, traits)
      const spec: ContainerSpec = {
        ...job,
        name: `${job.name}-dump`,
        // It streams, however large the database is.
        memoryMb: jobMemoryMb,
        disk: disk ?? null,
        binds: [
          ...job.binds.map(bind => (bind.target === places.data ? { ...bind, readOnly: !writesData } : bind)),
          { source: dump, target: dumpPlace, readOnly: false },
        ],
      }
      await runJob(engine, spec, ending ? AbortSignal.any([signal, ending]) : signal, hear)
    },
  }
}

/** A job has ended with another exit code than 0. */
export class JobFailed extends Error {
  override name = 'JobFailed'
}

/** Runs a container to its end; rejects with JobFailed, and its last output, unless it exits with 0. */
export async function runJob(
  engine: Pick<ContainerHost, 'runToEnd'>,
  spec: ContainerSpec,
  signal: AbortSignal,
  hear: (output: string) => void = () => {},
): Promise<void> {
  let output = ''
  const keep = (text: string) => {
    hear(text)
    output = (output + text).slice(-lastOutputBytes)
  }
  const { exitCode, oom } = await engine.runToEnd(spec, keep, signal)
  if (exitCode === 0) return
  const how = oom ? 'was ended because it used too much memory' : `ended with exit code ${exitCode}`
  throw new JobFailed(`${spec.command[0]} ${how}: ${output.trim()}`)
}

/** Rejects without JobFailed for a job that makes an empty data folder: unlike one that loads contents, it proves nothing about them. */
export function notInitialised(error: unknown): never {
  if (!(error instanceof JobFailed)) throw error
  throw new Error(`No empty data folder could be made: ${error.message}`, { cause: error })
}
