import type { StoredSnapshot } from '../../../db/snapshots/snapshots.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import type { ArchiveFacts, Filling, SnapshotTotals } from '../../snapshots/port.ts'
import { type ArchiveStoreOptions, storeArchive } from '../../snapshots/stored-archive.ts'
import type { HeardDump } from '../contents.ts'

interface DumpToStore {
  /** Empty. */
  folder: string
  facts: ArchiveFacts
  signal: AbortSignal
}

interface DuringStore {
  /** Fills the folder, and resolves to the digest of what was dumped, or to null where only a restored copy has one. */
  dump(heard: HeardDump, signal: AbortSignal): Promise<string | null>
  step(words: string): Promise<void>
  /** Reads the stored archive; `dumped` settles meanwhile. */
  prove(segmentId: string, dumped: Promise<string | null>): Promise<SnapshotTotals>
}

/**
 * Stores a dump while it is made. Its digest is read once the archive is stored, so that it leaves the processors to what packs and hashes, and the
 * proof begins meanwhile. As `storeArchive` otherwise; when this settles, nothing dumps any more.
 */
export async function storeDump(
  options: ArchiveStoreOptions,
  { folder, facts, signal }: DumpToStore,
  { dump, step, prove }: DuringStore,
): Promise<StoredSnapshot> {
  signal.throwIfAborted()
  const over = new AbortController()
  const until = AbortSignal.any([signal, over.signal])
  let dumped: Promise<string | null> = Promise.resolve(null)
  let hasStored = () => {}
  const stored = new Promise<void>((resolve, reject) => {
    hasStored = resolve
    until.addEventListener('abort', () => reject(until.reason), { once: true })
  })
  stored.catch(ignoreError('for a dump that waits for it'))
  const fill = (filling: Filling) =>
    new Promise<void>((complete, failed) => {
      const taken = () => {
        complete()
        return stored
      }
      dumped = dump({ ...filling, complete: taken }, until)
      dumped.then(() => complete(), failed)
    })
  const read = (segmentId: string) => {
    hasStored()
    return prove(segmentId, dumped)
  }
  const request = { files: folder, facts, fill, pause: async () => {}, resume: async () => {}, signal }
  try {
    return await storeArchive(options, request, { step, read })
  } finally {
    over.abort(new Error('The dump is not wanted any more.'))
    await dumped.catch(ignoreError('it has failed the archive, or was ended by its failure'))
  }
}
