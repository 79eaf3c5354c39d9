import type { Db } from '../../db/database.ts'
import { recordWritesAdmitted, recordWritesEnded } from '../../db/databases/database-disks.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { type DiskSpace, diskVerdict, isOutOfRoom, needsBallastToStart } from '../../policy/databases/disk-guard.ts'
import { refusal } from '../failures.ts'
import type { Volumes } from '../volumes/port.ts'
import { diskSpace, dropBallast, layBallast } from './disk-space.ts'
import type { HostedEngines } from './hosted-engine.ts'
import { databaseVolume } from './names.ts'

export interface DiskGuardOptions {
  db: Db
  volumes: Pick<Volumes, 'path' | 'quota'>
  hosted: Pick<HostedEngines, 'settle' | 'locally' | 'adapterOf' | 'foldersOf' | 'traitsOf'>
}

/** Calls `repair` while the engine stands still; when that was of use starts it again, and resolves to true. */
type Repairing = (repair: () => Promise<boolean>) => Promise<boolean>

export type DatabaseDiskGuard = ReturnType<typeof databaseDiskGuard>

/** Keeps a full disk from ending a database. Calls for one database must not overlap: they hold its lock. */
export function databaseDiskGuard({ db, volumes, hosted }: DiskGuardOptions) {
  const rootOf = (database: Pick<DatabaseFacts, 'id' | 'generation'>): string => volumes.path(databaseVolume(database))

  /** Null on hosts whose volumes have no limit of their own. */
  const spaceOf = async (database: Pick<DatabaseFacts, 'id' | 'generation'>): Promise<DiskSpace | null> =>
    volumes.quota === 'enforced' ? diskSpace(rootOf(database)) : null

  /** Lets an engine make room of what its owner has deleted, where it has room enough for that. */
  async function shrink(database: DatabaseFacts): Promise<void> {
    const { shrinkFiles } = hosted.adapterOf(database)
    const space = shrinkFiles && (await spaceOf(database))
    if (space) await hosted.locally(database, local => shrinkFiles(local, space.freeBytes))
  }

  return {
    spaceOf,
    shrink,

    /** Makes the ballast of a database if it is missing and there is room for it. */
    async lay(database: Pick<DatabaseFacts, 'id' | 'generation'>): Promise<void> {
      if (volumes.quota === 'enforced') await layBallast(rootOf(database))
    },

    /**
     * Prepares the disk of a database for the start of its engine, which does not run: removes what its last run has left unfinished, and
     * gives one that still has too little room the ballast.
     * Resolves to the facts with which the engine starts; the row has them too.
     */
    async beforeStart(database: DatabaseFacts): Promise<DatabaseFacts> {
      await hosted.adapterOf(database).discardDrafts?.(hosted.foldersOf(database).data)
      const space = await spaceOf(database)
      if (!space) return database
      const isShort = needsBallastToStart(space)
      const readOnly = database.readOnly || isShort || diskVerdict(space, false) === 'end writes'
      // Before the ballast is removed: what was started with it must not go on to write.
      if (readOnly) await recordWritesEnded(db, database.id)
      if (isShort) await dropBallast(rootOf(database))
      else await layBallast(rootOf(database))
      return { ...database, readOnly }
    },

    /**
     * Waits until an engine serves that was started. One that has ended instead gets its data repaired, if a full disk has damaged them:
     * `repairing` calls what it is given while the engine stands still and starts it again when that was of use; false = neither.
     * Rejects with CONTAINER_INSUFFICIENT_DISK_SPACE when it lacks room.
     */
    async untilServing<T>(database: DatabaseFacts, serving: () => Promise<T>, repairing: Repairing): Promise<T> {
      try {
        return await serving()
      } catch (error) {
        if (failureCode(error) !== 'ACTION_FAILED') throw error
        const { repair } = hosted.adapterOf(database)
        if (repair && (await repairing(() => repair(hosted.foldersOf(database).data)))) return serving()
        const space = await spaceOf(database)
        if (space && isOutOfRoom(space)) throw refusal('CONTAINER_INSUFFICIENT_DISK_SPACE', noRoomWords)
        throw error
      }
    },

    /** Makes the running engine refuse what adds data, or admit it again; its row and its settings say the same. May be repeated. */
    async change(current: DatabaseFacts, to: 'read-only' | 'writable'): Promise<void> {
      const database = { ...current, readOnly: to === 'read-only' }
      // What fails after this is repeated, also by the next start.
      if (database.readOnly) await recordWritesEnded(db, database.id)
      await hosted.settle(database)
      const adapter = hosted.adapterOf(database)
      await hosted.locally(database, local => adapter.admitWrites(local))
      await shrink(database)
      const space = await spaceOf(database)
      const { readOnly, syncsLate } = hosted.traitsOf(database)
      if (readOnly && syncsLate && space && isOutOfRoom(space)) await dropBallast(rootOf(database))
      if (readOnly) return
      await layBallast(rootOf(database))
      await recordWritesAdmitted(db, database.id)
    },
  }
}

const failureCode = (error: unknown): string => (error as { type?: string }).type ?? ''

/** Words for an owner whose database has no room left to start. */
const noRoomWords =
  'The disk of the database is full, and the space reserved for starting is used up. Give it more memory, and with it more disk; then start it.'
