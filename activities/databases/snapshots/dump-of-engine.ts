import type { Db } from '../../../db/database.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { refusal } from '../../failures.ts'
import type { AppLocks } from '../../steps/app-locks.ts'
import { type DatabaseContents, DumpPrevented, type EngineJob, type HeardDump } from '../contents.ts'
import { type DumpFolder, dumpJob } from '../dump-jobs.ts'
import { databaseContainerName } from '../names.ts'
import { type PreparationOptions, servingMeanwhile } from '../preparation.ts'

interface DumpHost extends PreparationOptions {
  db: Db
  locks: AppLocks
  contentsOf: (engine: EngineName) => DatabaseContents
}

interface DumpUse {
  /** Empty. */
  to: DumpFolder
  heard: HeardDump
  /** Called with each container that works on the folder, which may go on to read it when the dump is complete. */
  reads: (job: Promise<void>) => void
  signal: AbortSignal
}

/** Dumps what the engine has, and resolves to its digest; one that does not run is started for it, unreachable. */
export async function dumpOfEngine(
  host: DumpHost,
  database: DatabaseFacts,
  { to: { folder: dump, disk }, heard, reads, signal }: DumpUse,
): Promise<string | null> {
  const { engine, traits, hosted } = host
  const contents = host.contentsOf(database.engine)
  const folders = hosted.foldersOf(database)
  const own = dumpJob({ engine, traits, database, folders, dump, disk, writesData: false, heard, signal })
  const job: EngineJob = {
    ...own,
    run(...args) {
      const run = own.run(...args)
      reads(run)
      return run
    },
  }
  const work = () =>
    hosted
      .locally(database, local => contents.dump(local, job), signal)
      .catch(error => {
        throw error instanceof DumpPrevented ? refusal('SNAPSHOT_FAILED', error.message) : error
      })
  if ((await engine.inspect(databaseContainerName(database)))?.running) return work()
  return servingMeanwhile(host, database, signal, work)
}
