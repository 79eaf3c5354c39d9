import { ApplicationFailure } from '@temporalio/common'
import type { Db } from '../../db/database.ts'
import type { StoredSnapshot } from '../../db/snapshots/snapshots.ts'
import { inNewSegment } from '../objects/new-segment.ts'
import type { ObjectStore } from '../objects/port.ts'
import { SnapshotCorrupt, type SnapshotRequest, type Snapshots, type SnapshotTotals } from './port.ts'

export interface ArchiveStoreOptions {
  db: Db
  store: ObjectStore
  snapshots: Snapshots
}

/**
 * Copies a folder into the object store and reads the stored archive whole: only what reads back as it was written is a snapshot. `read`, if
 * given, does that in its own way and resolves to what it has read; what it rejects with fails the snapshot. Each call has its own segment
 * in the store; one that fails is left to the sweep.
 */
export async function storeArchive(
  options: ArchiveStoreOptions,
  request: SnapshotRequest,
  during: { step(words: string): Promise<void>; read?(segmentId: string): Promise<SnapshotTotals> },
): Promise<StoredSnapshot> {
  const readBack = async (segmentId: string) => {
    await during.step('reading the archive back')
    return verified(options, segmentId, request.signal)
  }
  const reads = during.read ?? readBack
  return inNewSegment(options.db, async segmentId => {
    // What is filled meanwhile says so itself.
    if (!request.fill) await during.step('copying files')
    const { stored, archive } = await copy(options, request, segmentId)
    const read = await reads(segmentId).catch(corruptAgain)
    if (read.digest !== archive.digest)
      corruptAgain(new SnapshotCorrupt('The stored archive holds other files than were copied.'))
    return { segmentId, size: stored.size, sha256: stored.sha256, digest: archive.digest }
  })
}

async function copy({ store, snapshots }: ArchiveStoreOptions, request: SnapshotRequest, segmentId: string) {
  const { body, totals } = snapshots.make(request)
  const ends = [store.put(segmentId, body, { signal: request.signal, withoutMd5: true }), totals] as const
  try {
    const [stored, archive] = await Promise.all(ends)
    return { stored, archive }
  } catch (error) {
    // What makes the archive would wait for its reader.
    body.destroy()
    throw error
  } finally {
    await Promise.allSettled(ends)
  }
}

async function verified({ store, snapshots }: ArchiveStoreOptions, segmentId: string, signal: AbortSignal) {
  const archive = await store.open(segmentId)
  return snapshots.verify(archive, signal).finally(() => archive.close())
}

/** Another attempt may be stored well. */
function corruptAgain(error: unknown): never {
  if (!(error instanceof SnapshotCorrupt)) throw error
  throw ApplicationFailure.retryable(`The archive did not read back: ${error.message}`, 'SNAPSHOT_FAILED')
}
