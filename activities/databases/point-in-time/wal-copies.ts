import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import type { Db } from '../../../db/database.ts'
import * as copies from '../../../db/databases/point-in-time/copies.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { KeyedLock } from '../../../lib/async/keyed-lock.ts'
import { messageOf } from '../../../lib/message-of.ts'
import { pointInTimeRules, type WalFile, walFileName } from '../../../policy/databases/point-in-time.ts'
import { inNewSegment } from '../../objects/new-segment.ts'
import type { ObjectStore } from '../../objects/port.ts'
import { ArchiveFolder } from './archive-folder.ts'
import { archiveNames } from './port.ts'

export interface WalCopiesOptions {
  db: Db
  store: Pick<ObjectStore, 'put'>
  /** Rejects when another process has taken over this host. */
  held(): Promise<void>
}

/** A volume with the folder of its data on this host. */
export interface ArchivedVolume extends copies.CopiedVolume {
  ownerId: string
  data: string
}

/** A WAL file could not be stored or recorded: another attempt may. */
export class NotStored extends Error {
  override name = 'NotStored'
}

const storing = <T>(work: () => Promise<T>): Promise<T> =>
  work().catch(error => {
    throw new NotStored(messageOf(error), { cause: error })
  })

export type WalCopies = ReturnType<typeof walCopies>

const compress = promisify(gzip)
const level = constants.Z_BEST_SPEED

/**
 * Moves finished WAL files of engines into the object store: read and compressed, stored, recorded, and only then removed from the volume.
 * One file at a time for each volume and each account, and a few on a host.
 */
export function walCopies({ db, store, held }: WalCopiesOptions) {
  const locks = new KeyedLock()
  const slots = new FairSlots({ atOnce: pointInTimeRules.copies, perSubject: 1 })

  async function copyFile(
    volume: ArchivedVolume,
    folder: ArchiveFolder,
    file: WalFile,
  ): Promise<'stored' | 'known' | 'no WAL file'> {
    const { databaseId, generation } = volume
    const key = { databaseId, generation, ...file }
    if (await storing(() => copies.findWalSegment(db, key))) return 'known'
    const read = await folder.read(file)
    if (!read) return 'no WAL file'
    const body = await compress(read.bytes, { level })
    await storing(async () => {
      await held()
      const copying = async (segmentId: string) => {
        const { size, sha256 } = await store.put(segmentId, Readable.from([body]), { length: body.length })
        await held()
        if (await copies.recordWalFile(db, { ...key, segmentId, size, sha256, at: read.at })) return true
        throw new Error('The object store has lost it meanwhile.')
      }
      await inNewSegment(db, copying, { isSmall: true })
    })
    return 'stored'
  }

  /** Copies what one look has found, which is bounded; resolves to whether anything was stored that was not before. */
  async function copyAll(volume: ArchivedVolume, folder: ArchiveFolder, signal: AbortSignal): Promise<boolean> {
    const { files, gap, others } = await folder.list()
    let failure: string | null = null
    let [copied, stored] = [0, 0]
    for (const name of others)
      if (!(await folder.remove(name))) failure = `The archive folder has something that cannot be removed: ${name}`
    for (const file of files) {
      const release = await slots.enterUntil(volume.ownerId, signal)
      try {
        const outcome = await copyFile(volume, folder, file)
        if (outcome !== 'no WAL file') copied++
        if (outcome === 'stored') stored++
        if (outcome === 'no WAL file') {
          failure = `${walFileName(file)} is no whole WAL file, so it was left out.`
          await copies.recordGap(db, volume)
        }
        await folder.remove(walFileName(file))
      } finally {
        release()
      }
    }
    // The row first: what the engine leaves out afterwards makes the mark again.
    if (gap) {
      await held()
      await copies.recordGap(db, volume)
      await folder.remove(archiveNames.gap)
    }
    await copies.recordCopyState(db, volume, { waiting: 0, failure, copied: copied > 0 })
    return stored > 0
  }

  return {
    /**
     * Copies the WAL files that wait in a volume, oldest first; true when it has stored any, so that more may wait by now. Rejects with the
     * reason, which is recorded, when one could not be copied.
     */
    async copy(volume: ArchivedVolume, signal: AbortSignal): Promise<boolean> {
      const hasStored = await locks.run(`${volume.databaseId}-${volume.generation}`, () =>
        ArchiveFolder.within(volume.data, async folder => {
          try {
            return await copyAll(volume, folder, signal)
          } catch (error) {
            if (!signal.aborted) await recordFailure(volume, folder, error)
            throw error
          }
        }),
      )
      return hasStored ?? false
    },
  }

  async function recordFailure(volume: ArchivedVolume, folder: ArchiveFolder, error: unknown): Promise<void> {
    const failure = messageOf(error)
    const { files, gap } = await folder.list()
    const waiting = files.length
    const record = async () => {
      if (gap) await copies.noteGap(db, volume)
      await copies.recordCopyState(db, volume, { waiting, failure, copied: false })
      if (waiting > 0) await copies.retainWhileWaiting(db, volume)
    }
    await record().catch(ignoreError('the database may be what has failed'))
  }
}
