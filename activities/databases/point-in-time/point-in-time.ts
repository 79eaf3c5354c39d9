import type { Db } from '../../../db/database.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { readRestorable } from '../../../db/databases/point-in-time/backups.ts'
import * as rows from '../../../db/databases/point-in-time/copies.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import { pause } from '../../../lib/async/loop.ts'
import { codeOf, diskFailed } from '../../../lib/folders/error-codes.ts'
import { backupFor, pointInTimeRules, restorableRanges, type WalFile } from '../../../policy/databases/point-in-time.ts'
import { rangesWords } from '../../../policy/databases/restorable-words.ts'
import { refusal } from '../../failures.ts'
import type { ObjectStore } from '../../objects/port.ts'
import type { AppLocks } from '../../steps/app-locks.ts'
import { pointInTimeOf } from '../engines/point-in-time.ts'
import { databaseContainerName, databaseVolume } from '../names.ts'
import type { LocalEngine } from '../port.ts'
import { type PreparationOptions, servingMeanwhile } from '../preparation.ts'
import { ArchiveFolder } from './archive-folder.ts'
import { storeBaseBackup } from './base-backups.ts'
import type { PointInTimeEngine } from './port.ts'
import { recoverVolume } from './recovery.ts'
import { NotStored, type WalCopies } from './wal-copies.ts'

export interface PointInTimeOptions extends PreparationOptions {
  db: Db
  locks: AppLocks
  store: Pick<ObjectStore, 'put' | 'get'>
  copies: WalCopies
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
}

export type PointInTime = ReturnType<typeof pointInTime>

/** With the generation of the volume that an engine writes to. */
type Facts = DatabaseFacts

/** The moment that a restore is to bring back; null when it is one from a snapshot. */
export const momentOf = ({ to }: Record<string, unknown>): Date | null => (typeof to === 'string' ? new Date(to) : null)

const pollMs = 100

type Volume = Pick<Facts, 'id' | 'generation'>

/** What a host does so that its databases can be restored to any second. For engines that cannot be, nothing. */
export function pointInTime(options: PointInTimeOptions) {
  const { db, engine, hosted, store, held } = options
  const volumeOf = ({ id: databaseId, generation }: Volume) => ({ databaseId, generation })

  const copy = async (database: Volume & Pick<Facts, 'ownerId'>, signal: AbortSignal) =>
    options.copies.copy(
      { ...volumeOf(database), ownerId: database.ownerId, data: hosted.foldersOf(database).data },
      signal,
    )

  const storeBackup = (database: Facts, adapter: PointInTimeEngine, local: LocalEngine, signal: AbortSignal) =>
    storeBaseBackup({ db, store, held }, volumeOf(database), adapter, local, signal)

  const isUnmounted = async (volume: string): Promise<boolean> =>
    (await options.volumes.faults([volume])).get(volume) === 'not mounted'

  /** Waits until a WAL file is stored; the engine has finished it. */
  async function untilCopied(database: Facts, file: WalFile, signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + pointInTimeRules.newestSeconds * 1000
    for (;;) {
      await copy(database, signal)
      if (await rows.findWalSegment(db, { ...volumeOf(database), ...file })) return
      if (performance.now() > deadline)
        throw new Error(`The newest changes were not copied within ${pointInTimeRules.newestSeconds} s.`)
      await pause(pollMs, signal)
      signal.throwIfAborted()
    }
  }

  /** Ends the WAL file of an engine after a moment that its clock may not have reached yet. */
  async function endAfter(adapter: PointInTimeEngine, local: LocalEngine, to: Date, signal: AbortSignal) {
    const deadline = performance.now() + pointInTimeRules.newestSeconds * 1000
    while ((await adapter.now(local)) <= to) {
      if (performance.now() > deadline)
        throw new Error('The clock of its host is behind: it has not reached this moment.')
      await pause(pollMs, signal)
      signal.throwIfAborted()
    }
    return adapter.endFile(local)
  }

  /** Has everything stored that the engine of the volume that serves has written, up to this moment. */
  async function reach(database: Facts, adapter: PointInTimeEngine, to: Date, signal: AbortSignal): Promise<void> {
    const end = () => hosted.locally(database, local => endAfter(adapter, local, to, signal))
    if ((await engine.inspect(databaseContainerName(database)))?.running)
      return untilCopied(database, await end(), signal)
    const state = (await rows.listCopyStates(db, database.id)).find(one => one.generation === database.generation)
    if (state?.closed_at) {
      await copy(database, signal)
      return
    }
    // It has crashed, and what it has written last is not in the archive.
    await untilCopied(database, await servingMeanwhile(options, database, signal, end), signal)
  }

  /** The backup to begin with. Rejects with SNAPSHOT_NOT_FOUND and what can be restored when there is none. */
  async function chosenBackup(database: Facts, to: Date) {
    const row = await loadDatabase(db, database.id)
    if (!row) throw refusal('DATABASE_NOT_FOUND', 'The database was deleted.')
    const { rows: stored, backups, servings } = await readRestorable(db, row)
    const now = new Date()
    const chosen = backupFor(to, backups, servings, now)
    const backup = stored.find(({ id }) => id === chosen?.id)
    if (!backup) throw refusal('SNAPSHOT_NOT_FOUND', rangesWords(to, restorableRanges(backups, servings, now), now))
    return backup
  }

  return {
    /** Stores the WAL files that wait in a volume; true when there were any. Rejects when it could not; the reason is recorded. */
    copy,

    /**
     * A restore is about to give up the volume before the last one: stores the WAL files that wait there, or rejects with the reason. What
     * is on a disk that has failed, or is missing, is lost already, and prevents no restore.
     */
    async beforeRestore({ id, ownerId, engine: name }: Facts, signal: AbortSignal): Promise<void> {
      const generation = pointInTimeOf(name) && (await loadDatabase(db, id))?.retired_generation
      if (generation == null) return
      const volume = databaseVolume({ id, generation })
      const notYet = (reason: string, cause?: unknown) => {
        const words = 'Moments before the last restore can be restored only once their changes are stored'
        return new Error(`${words}, and this restore gives up their volume: ${reason}`, { cause })
      }
      if (await isUnmounted(volume)) throw notYet('It is not mounted.')
      await copy({ id, ownerId, generation }, signal).catch(error => {
        signal.throwIfAborted()
        if (error instanceof NotStored || !diskFailed.has(codeOf(error))) throw notYet(error.message, error)
      })
    },

    /**
     * Whether a volume that no longer serves has WAL files, or the mark of a gap, that the host has not stored yet; until `givenUp` also one
     * that is not mounted may have them. What is on a disk that has failed is lost already.
     */
    async waits(of: Volume & Pick<Facts, 'engine'>, givenUp: Date): Promise<boolean> {
      if (!pointInTimeOf(of.engine)) return false
      if (await isUnmounted(databaseVolume(of))) return givenUp > new Date()
      const contents = await ArchiveFolder.within(hosted.foldersOf(of).data, folder => folder.list()).catch(error => {
        if (!diskFailed.has(codeOf(error))) throw error
        return null
      })
      return contents !== null && (contents.files.length > 0 || contents.gap)
    },

    /** Stores a base backup of an engine that serves. */
    async backUp(database: Facts, signal: AbortSignal): Promise<void> {
      const adapter = pointInTimeOf(database.engine)
      if (adapter) await hosted.locally(database, local => storeBackup(database, adapter, local, signal))
    },

    /**
     * Stores a base backup of a volume that is about to serve, while its engine is unreachable: from its first moment on it can be
     * restored. What its engine has archived before is of no use.
     */
    async backUpFirst(database: Facts, local: LocalEngine, signal: AbortSignal): Promise<void> {
      const adapter = pointInTimeOf(database.engine)
      if (!adapter || !local.traits.archives) return
      await ArchiveFolder.within(hosted.foldersOf(database).data, folder => folder.clear())
      await storeBackup(database, adapter, local, signal)
    },

    /** The engine is about to run. */
    async opened(database: Facts): Promise<void> {
      if (pointInTimeOf(database.engine)) await rows.recordClosed(db, volumeOf(database), false)
    },

    /** The engine was stopped cleanly. Recorded only if it has archived all that it wrote. */
    async closed(database: Facts): Promise<void> {
      if (!pointInTimeOf(database.engine)) return
      if (await ArchiveFolder.isComplete(hosted.foldersOf(database).data))
        await rows.recordClosed(db, volumeOf(database), true)
    },

    /**
     * Makes the volume of `copyOf` with the contents that the database had at a moment, next to the one that serves. `folder` is empty, and
     * written by the engine. Rejects with SNAPSHOT_NOT_FOUND when that moment cannot be restored.
     */
    async prepare(database: Facts, copyOf: Facts, to: Date, folder: string, signal: AbortSignal): Promise<void> {
      const adapter = pointInTimeOf(database.engine)
      if (!adapter) throw refusal('SNAPSHOT_NOT_FOUND', 'Only a postgres database can be restored to a moment.')
      const backup = await chosenBackup(database, to)
      const source = { ...database, generation: backup.generation }
      if (backup.generation === database.generation) await reach(source, adapter, to, signal)
      else await copy(source, signal)
      // What was copied just now may have shown a gap.
      const { id, timeline, last_file, to_at } = await chosenBackup(database, to)
      if (id !== backup.id) throw new Error('Another base backup is to be used now.')
      const state = (await rows.listCopyStates(db, database.id)).find(one => one.generation === backup.generation)
      const isClosed = Boolean(state?.closed_at)
      const newest = isClosed ? await rows.newestWalNumber(db, { ...volumeOf(source), timeline }) : null
      // Until the time of its last file, a backup has everything in its files, also when nothing was committed at their end.
      const lastFile = to_at && to <= to_at ? last_file : newest
      const recovered = (local: LocalEngine) => this.backUpFirst(copyOf, local, signal)
      await recoverVolume(options, copyOf, { db, store, folder, adapter, backup, to, lastFile, recovered }, signal)
      await copy(copyOf, signal)
    },
  }
}
