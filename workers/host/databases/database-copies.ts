import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { databaseVolume } from '../../../activities/databases/names.ts'
import type { PointInTime } from '../../../activities/databases/point-in-time/point-in-time.ts'
import type { Db } from '../../../db/database.ts'
import {
  type CopiedDatabase,
  listCopiedDatabases,
  listDueBackups,
} from '../../../db/databases/point-in-time/copied-databases.ts'
import { recordBackupFailure } from '../../../db/databases/point-in-time/copies.ts'
import { type DatabaseFacts, readFactsOfDatabase } from '../../../db/operations/database-facts.ts'
import { Backoff } from '../../../lib/async/backoff.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { loop, pause } from '../../../lib/async/loop.ts'
import { messageOf } from '../../../lib/message-of.ts'
import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'

export interface DatabaseCopiesOptions {
  db: Db
  pointInTime: Pick<PointInTime, 'copy' | 'backUp'>
  hostId: string
  sharedUid: number | null
  log: Logger
  /** Pause between looks. */
  everySeconds?: number
}

/** How many volumes are read concurrently; WAL files are read a few at a time (activities/databases/point-in-time/wal-copies.ts). */
const width = 32

/**
 * Copies what databases need to be restored to any second, until the signal aborts: WAL files as their engines finish them, and base
 * backups, one at a time. A failure is recorded for operators, and tried again later; it holds up no other database.
 */
export async function watchDatabaseCopies(options: DatabaseCopiesOptions, signal: AbortSignal): Promise<void> {
  const { log, everySeconds = pointInTimeRules.lookSeconds } = options
  setMaxListeners(0, signal) // one for each volume that waits
  const rounds = databaseCopies(options, signal)
  const every = (what: string, work: () => Promise<void>) =>
    loop(work, {
      signal,
      everyMs: everySeconds * 1000,
      onError: error => {
        if (!signal.aborted) log.warn({ err: error }, `${what} of databases: will try again`)
      },
    })
  await Promise.all([every('WAL files', rounds.copy), every('base backups', rounds.backUp)])
  await rounds.ended()
}

/** One round of each. */
function databaseCopies({ db, pointInTime, hostId, sharedUid, log }: DatabaseCopiesOptions, signal: AbortSignal) {
  /** By volume. A round does not wait for those of an earlier one. */
  const inProgress = new Map<string, Promise<void>>()
  const slots = new FairSlots({ atOnce: width, perSubject: 'spare' })
  const [copying, backingUp] = [new Backoff(pointInTimeRules.retry), new Backoff(pointInTimeRules.retry)]

  async function factsOf(id: string): Promise<DatabaseFacts | null> {
    const facts = await readFactsOfDatabase(db, id)
    return facts ? { ...facts, uid: sharedUid ?? facts.uid } : null
  }

  /** A failure is reported and delays the next attempt. */
  async function attempt(
    delays: Backoff,
    { id, generation }: Pick<DatabaseFacts, 'id' | 'generation'>,
    what: string,
    work: () => Promise<void>,
  ): Promise<string | null> {
    const key = databaseVolume({ id, generation })
    try {
      await work()
      delays.forget(key)
      return null
    } catch (error) {
      if (signal.aborted) throw error
      delays.seen(key)
      log.warn({ err: error, databaseId: id, generation }, `databases: ${what} failed and will be tried again`)
      return messageOf(error)
    }
  }

  async function pass(volume: CopiedDatabase): Promise<'stored' | 'nothing' | 'failed'> {
    const release = await slots.enterUntil(volume.ownerId, signal)
    try {
      let hasStored = false
      const failure = await attempt(copying, volume, 'the copy of WAL files', async () => {
        hasStored = await pointInTime.copy(volume, signal)
      })
      if (failure !== null) return 'failed'
      return hasStored ? 'stored' : 'nothing'
    } finally {
      release()
    }
  }

  /**
   * Until nothing was stored for the time between two rounds: an engine that writes much would leave files out by then. Each pass is
   * bounded and takes its turn.
   */
  async function copyOne(volume: CopiedDatabase): Promise<void> {
    const { lookSeconds, busyLookSeconds } = pointInTimeRules
    /** Looks that are still due although there is nothing. */
    let left = 0
    while (!signal.aborted) {
      const outcome = await pass(volume)
      if (outcome === 'stored') left = lookSeconds / busyLookSeconds
      else if (outcome === 'failed' || left === 0) return
      else {
        left--
        await pause(busyLookSeconds * 1000, signal)
      }
    }
  }

  return {
    /** Begins with every volume that waits for no other attempt. */
    async copy(): Promise<void> {
      const all = await listCopiedDatabases(db, hostId)
      copying.forgetOthers(all.map(databaseVolume))
      for (const one of all) {
        const key = databaseVolume(one)
        if (signal.aborted) return
        if (inProgress.has(key) || copying.waits(key)) continue
        const done = copyOne(one)
          .catch(ignoreError('the watch has ended, and all others are reported'))
          .finally(() => inProgress.delete(key))
        inProgress.set(key, done)
      }
    },

    /** Resolves when nothing that `copy` has started runs any more. */
    async ended(): Promise<void> {
      await Promise.all(inProgress.values())
    },

    /** The one that is due first and whose last attempt has not failed a moment ago. */
    async backUp(): Promise<void> {
      for (const id of await listDueBackups(db, hostId)) {
        if (signal.aborted) return
        const database = await factsOf(id)
        if (!database || backingUp.waits(databaseVolume(database))) continue
        const failure = await attempt(backingUp, database, 'a base backup', () => pointInTime.backUp(database, signal))
        const volume = { databaseId: id, generation: database.generation }
        await recordBackupFailure(db, volume, failure).catch(ignoreError('the next attempt records its own'))
      }
    },
  }
}
