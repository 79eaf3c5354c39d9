import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import type { ContainerHost, ContainerSpec } from '../containers/port.ts'
import type { HostTraits } from '../containers/spec.ts'
import { type DatabaseFolders, databaseJob, jobMemoryMb } from './container.ts'
import { dumpPlace, type EngineJob } from './contents.ts'
import { places } from './port.ts'

export interface DumpJobOptions {
  engine: ContainerHost
  traits: HostTraits
  database: DatabaseFacts
  /** Those of the engine whose data leave or come. */
  folders: DatabaseFolders
  /** The folder with the dump, on this host. */
  dump: string
  /** Whether jobs may write the data folder, because the engine was never started on it. */
  writesData: boolean
  signal: AbortSignal
}

const lastOutputBytes = 4096

/** Containers that dump or load, one at a time under one name: a container that a killed host left is removed before the next. */
export function dumpJob({ engine, traits, database, folders, dump, writesData, signal }: DumpJobOptions): EngineJob {
  return {
    folder: dump,
    data: folders.data,
    async run(command) {
      const job = databaseJob(database, folders, command, traits)
      const spec: ContainerSpec = {
        ...job,
        name: `${job.name}-dump`,
        // It streams, however large the database is.
        memoryMb: jobMemoryMb,
        binds: [
          ...job.binds.map(bind => (bind.target === places.data ? { ...bind, readOnly: !writesData } : bind)),
          { source: dump, target: dumpPlace, readOnly: false },
        ],
      }
      await engine.remove(spec.name)
      await runJob(engine, spec, signal)
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
): Promise<void> {
  let output = ''
  const keep = (text: string) => {
    output = (output + text).slice(-lastOutputBytes)
  }
  const { exitCode, oom } = await engine.runToEnd(spec, keep, signal)
  if (exitCode === 0) return
  const how = oom ? 'was ended because it used too much memory' : `ended with exit code ${exitCode}`
  throw new JobFailed(`${spec.command[0]} ${how}: ${output.trim()}`)
}

/** Rejects without JobFailed for a job that makes an empty data folder: unlike one that loads contents, it says nothing of them. */
export function notInitialised(error: unknown): never {
  if (!(error instanceof JobFailed)) throw error
  throw new Error(`No empty data folder could be made: ${error.message}`, { cause: error })
}
