import type { BackupRow } from '../../../db/databases/point-in-time/backups.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { pause } from '../../../lib/async/loop.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'
import type { ContainerSpec } from '../../containers/port.ts'
import { refusal } from '../../failures.ts'
import { diskOf, dumpJob, limitedJob } from '../dump-jobs.ts'
import { databaseVolume } from '../names.ts'
import { recordPassword } from '../password-record.ts'
import { EngineUnavailable, type LocalEngine } from '../port.ts'
import { completeVolume, emptyVolume, type PreparationOptions } from '../preparation.ts'
import { type PointInTimeEngine, recoveryPlace } from './port.ts'
import { RecoveryFiles, type RecoveryFilesOptions } from './recovery-files.ts'

export interface Recovery extends Omit<RecoveryFilesOptions, 'source'> {
  adapter: PointInTimeEngine
  backup: BackupRow
  to: Date
  /** Number of the last WAL file with anything until that moment: a recovery that reaches it has everything. Null = more may follow. */
  lastFile: number | null
  /** With the recovered engine, before it is stopped. */
  recovered(local: LocalEngine): Promise<void>
}

const pollMs = 200

/** Last words of Postgres in that case. */
const beforeTarget = 'before configured recovery target was reached'

/** It ended before its target: the WAL files do not reach it. */
class WalEnded extends Error {
  override name = 'WalEnded'
}

/**
 * Makes a volume with the contents of a database at one moment: from a base backup and the WAL files after it, in an engine that nobody
 * reaches. `database` has the generation of the new volume. An interrupted attempt is made anew.
 */
export async function recoverVolume(
  options: PreparationOptions,
  database: DatabaseFacts,
  recovery: Recovery,
  signal: AbortSignal,
): Promise<void> {
  const { engine, hosted, traits, volumes } = options
  const { adapter, backup, to, folder } = recovery
  await emptyVolume(options, database)
  await hosted.settle(database, 'privately')
  const source = { databaseId: backup.database_id, generation: backup.generation }
  const files = new RecoveryFiles({ ...recovery, source })
  try {
    await files.bringBackup(backup.segment_id, signal)
    const folders = hosted.foldersOf(database)
    const disk = await diskOf(options, database)
    const job = dumpJob({ engine, traits, database, folders, dump: folder, disk, writesData: true, signal })
    await job.run(adapter.unpack())
    try {
      await recoverTo(options, database, { ...recovery, files, to }, signal)
    } catch (error) {
      if (!(error instanceof WalEnded)) throw error
      if (recovery.lastFile === null || files.missing?.number !== recovery.lastFile + 1)
        throw refusal('SNAPSHOT_RESTORE_FAILED', endedWords(to))
      // Nothing was committed between the end of that file and that moment.
      await recoverTo(options, database, { ...recovery, files, to: null }, signal)
    }
    await recordPassword(volumes, database, database.passwordGeneration)
    await completeVolume(options, databaseVolume(database))
  } finally {
    files.close()
  }
}

const endedWords = (to: Date): string =>
  `What was copied of the database ends before ${to.toISOString()}. Restore it to an earlier moment.`

/** Runs the engine until it has recovered and served `recovered`, and stops it cleanly. */
async function recoverTo(
  options: PreparationOptions,
  database: DatabaseFacts,
  recovery: Omit<Recovery, 'to'> & { files: RecoveryFiles; to: Date | null },
  signal: AbortSignal,
): Promise<void> {
  const { engine, hosted } = options
  const { adapter, files, folder, to } = recovery
  const job = await limitedJob(options, database, adapter.recover(hosted.traitsOf(database), to))
  const dump = { source: folder, target: recoveryPlace, readOnly: false }
  const spec: ContainerSpec = { ...job, binds: [...job.binds, dump] }
  const ending = new AbortController()
  const within = AbortSignal.any([signal, ending.signal])
  const serving = files.serve(within)
  serving.catch(error => ending.abort(error))
  try {
    await engine.remove(spec.name)
    await engine.create(spec)
    await engine.start(spec.name)
    await untilRecovered(options, database, { name: spec.name, files }, within)
    await hosted.locally(database, async local => {
      if (!(await adapter.isRecovered(local, recovery.backup.timeline)))
        throw new Error('The engine serves, but has not left its recovery.')
      await hosted.adapterOf(database).setPassword(local)
      await recovery.recovered(local)
    })
    await engine.stop(spec.name, engines[database.engine].stop.graceSeconds)
  } finally {
    ending.abort()
    await serving.catch(ignoreError('it is the reason of the abort'))
    await engine.remove(spec.name)
  }
}

/** Rejects with WalEnded when the engine ended because a file is missing, and when it makes no progress. */
async function untilRecovered(
  { engine, hosted }: PreparationOptions,
  database: DatabaseFacts,
  { name, files }: { name: string; files: RecoveryFiles },
  signal: AbortSignal,
): Promise<void> {
  for (let [last, since] = [-1, performance.now()]; ; await pause(pollMs, signal)) {
    signal.throwIfAborted()
    try {
      return await hosted.locally(database, local => hosted.adapterOf(database).ping(local))
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) throw error
    }
    const state = await engine.inspect(name)
    if (!state?.running) {
      const words = await tail(engine, name)
      if (files.missing && words.includes(beforeTarget)) throw new WalEnded('The engine has read all WAL files.')
      throw new Error(`The engine ended with exit code ${state?.exitCode} while it recovered: ${words}`)
    }
    const number = files.requested?.number ?? -1
    if (number !== last) [last, since] = [number, performance.now()]
    if (performance.now() - since > pointInTimeRules.recoverySeconds * 1000)
      throw new Error(
        `The engine has made no progress for ${pointInTimeRules.recoverySeconds} s: ${await tail(engine, name)}`,
      )
  }
}

const tail = async (engine: PreparationOptions['engine'], name: string): Promise<string> =>
  ((await engine.logs(name, 4096)) ?? '').trim()
