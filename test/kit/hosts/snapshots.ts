import { createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { SnapshotFacts, SnapshotRequest, Snapshots, SnapshotTotals } from '../../../activities/snapshots/port.ts'

export const facts: SnapshotFacts = {
  appId: 'a'.repeat(24),
  name: 'shop',
  createdAt: '2026-11-21T10:00:00.000Z',
  variablesVersion: 3,
  configuration: { memory: 256 },
}

/** A request that is not cancelled, for a program that is idle. */
export const requestOf = (files: string, changes: Partial<SnapshotRequest> = {}): SnapshotRequest => ({
  files,
  facts,
  pause: async () => {},
  resume: async () => {},
  signal: new AbortController().signal,
  ...changes,
})

/** Makes a snapshot into a file. */
export async function snapshotTo(
  path: string,
  snapshots: Snapshots,
  request: SnapshotRequest,
): Promise<SnapshotTotals> {
  const { body, totals } = snapshots.make(request)
  await pipeline(body, createWriteStream(path))
  return totals
}

/** Opens an archive for as long as `work` takes. */
export async function opened<T>(
  path: string,
  work: (file: Awaited<ReturnType<typeof open>>) => Promise<T>,
): Promise<T> {
  const file = await open(path)
  try {
    return await work(file)
  } finally {
    await file.close()
  }
}
