import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../db/database.ts'
import { holdSnapshotPlace, keepSnapshotPlace } from '../db/snapshot-places.ts'

const lookEveryMs = 300
const holdEveryMs = 20_000

interface Asking {
  hostId: string
  operationId: string
}

/** Waits until the operation has its host's place for snapshots, also over a database that is away; rejects when the signal aborts. */
export async function awaitPlace(db: Db, { hostId, operationId }: Asking, signal: AbortSignal): Promise<void> {
  while (!(await holdSnapshotPlace(db, hostId, operationId).catch(() => false)))
    await sleep(lookEveryMs, undefined, { signal })
}

/** Holds the place on until the work has ended, however long it takes. */
export async function holdingPlace<T>(db: Db, { hostId, operationId }: Asking, work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => void keepSnapshotPlace(db, hostId, operationId).catch(() => {}), holdEveryMs)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
