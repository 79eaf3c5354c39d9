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
 * Copies a folder into the object store and reads the stored archive whole: only what reads back as it was written is a snapshot.
 * `proved`, if given, then gets the segment; what it rejects with fails the snapshot. Each call has its own segment in the store; one
 * that fails is left to the sweep.
 */
export async function storeArchive(
  options: ArchiveStoreOptions,
  request: SnapshotRequest,
  during: { step(words: string): Promise<void>; proved?(segmentId: string): Promise<void> },
): Promise<StoredSnapshot> {
  return inNewSegment(options.db, async segmentId => {
    await during.step('copying files')
    const { stored, archive } = await copy(options, request, segmentId)
    await during.step('reading the archive back')
    await readBack(options, segmentId, archive, request.signal)
    await during.proved?.(segmentId)
    return { segmentId, size: stored.size, sha256: stored.sha256, digest: archive.digest }
  })
}

async function copy({ store, snapshots }: ArchiveStoreOptions, request: SnapshotRequest, segmentId: string) {
  const { body, totals } = snapshots.make(request)
  const ends = [store.put(segmentId, body, { signal: request.signal }), totals] as const
  try {
    const [stored, archive] = await Promise.all(ends)
    return { stored, archive }
  } finally {
    await Promise.allSettled(ends)
  }
}

async function readBack(
  { store, snapshots }: ArchiveStoreOptions,
  segmentId: string,
  { digest }: SnapshotTotals,
  signal: AbortSignal,
): Promise<void> {
  const archive = await store.open(segmentId)
  try {
    const read = await snapshots.verify(archive, signal)
    if (read.digest !== digest) throw new SnapshotCorrupt('The stored archive holds other files than were copied.')
  } catch (error) {
    if (!(error instanceof SnapshotCorrupt)) throw error
    throw ApplicationFailure.retryable(`The archive did not read back: ${error.message}`, 'SNAPSHOT_FAILED')
  } finally {
    await archive.close()
  }
}
