import {
  ActivityCancellationType,
  CancellationScope,
  isCancellation,
  proxyActivities,
  uuid4,
} from '@temporalio/workflow'
import type { BlobUpkeep } from '../activities/blob-upkeep.ts'
import type { Upkeep } from '../policy/objects/blob-upkeep.ts'
import { heartbeatMs } from '../policy/timeouts.ts'
import { failureOf } from './failures.ts'

const steps = proxyActivities<BlobUpkeep>({
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  heartbeatTimeout: heartbeatMs,
  startToCloseTimeout: '1h',
  retry: { initialInterval: '1s', maximumInterval: '1m', maximumAttempts: 20 },
})

const works: Record<Upkeep, (receiptId: string) => Promise<void>> = {
  reclaim: steps.reclaimUploads,
  expiry: steps.expireObjects,
  rules: steps.applyRules,
  sweep: steps.sweepSegments,
  fold: steps.foldUsage,
  sample: steps.sampleUsage,
  recount: steps.recountUsage,
}

/** One run of the upkeep of blob storage, with its receipt. A run continues after a crash. */
export async function blobUpkeep(kind: Upkeep): Promise<void> {
  const receiptId = uuid4().replaceAll('-', '')
  await steps.openReceipt(receiptId, kind)
  try {
    await works[kind](receiptId)
  } catch (error) {
    const why = isCancellation(error) ? 'It was cancelled.' : failureOf(error).message
    await CancellationScope.nonCancellable(() => steps.closeReceipt(receiptId, why))
    throw error
  }
  await steps.closeReceipt(receiptId, null)
}
