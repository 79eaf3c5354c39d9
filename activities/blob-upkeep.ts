import type { Db } from '../db/database.ts'
import { checkReceiptLines, closeReceipt, openReceipt } from '../db/objects/blob-receipts.ts'
import { applyRule, listDeletingRules, reclaimIdleUploads, removeExpiredObjects } from '../db/objects/object-ends.ts'
import { foldAllUsage, recountAllUsage, sampleUsage } from '../db/objects/usage-upkeep.ts'
import type { Upkeep, UpkeepTimes } from '../policy/objects/blob-upkeep.ts'
import type { ObjectStore } from './objects/port.ts'
import { sweepSegments } from './objects/segment-sweep.ts'

export type BlobUpkeep = ReturnType<typeof blobUpkeep>

/** The upkeep of blob storage. Every step may be repeated and run concurrently: rows decide, under their locks. */
export function blobUpkeep(db: Db, store: ObjectStore, times: UpkeepTimes) {
  /** Repeats a round until it finds nothing. */
  async function untilDone(round: () => Promise<number>): Promise<void> {
    while ((await round()) > 0);
  }

  return {
    async openReceipt(id: string, kind: Upkeep): Promise<void> {
      await openReceipt(db, id, kind)
    },
    async reclaimUploads(receiptId: string): Promise<void> {
      await untilDone(() => reclaimIdleUploads(db, receiptId, times.idleSeconds))
    },
    async expireObjects(receiptId: string): Promise<void> {
      await untilDone(() => removeExpiredObjects(db, receiptId))
    },
    async applyRules(receiptId: string): Promise<void> {
      for (const rule of await listDeletingRules(db))
        for (let walk: typeof rule | undefined = rule; walk; ) walk = await applyRule(db, receiptId, walk)
    },
    async sweepSegments(receiptId: string): Promise<void> {
      await untilDone(() => sweepSegments({ db, store }, receiptId, times))
    },
    async foldUsage(): Promise<void> {
      await foldAllUsage(db)
    },
    async sampleUsage(): Promise<void> {
      await sampleUsage(db)
    },
    async recountUsage(receiptId: string): Promise<void> {
      await recountAllUsage(db, receiptId)
    },
    /** Checks that what the run removed is missing, and closes its receipt, also where the check fails. */
    async closeReceipt(id: string, failure: string | null): Promise<void> {
      try {
        await checkReceiptLines(db, id)
      } finally {
        await closeReceipt(db, id, failure)
      }
    },
  }
}
