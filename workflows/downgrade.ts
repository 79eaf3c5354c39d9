import { condition, defineSignal, proxyLocalActivities, setHandler } from '@temporalio/workflow'
import type { DowngradeRecords } from '../activities/downgrade-records.ts'

/** The step was requested or confirmed. */
const look = defineSignal('look')

const { settleDowngrade } = proxyLocalActivities<DowngradeRecords>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '5s' },
})

/**
 * Waits until the step of an account to a lower plan is confirmed, and applies it, or until its code expires. The row decides which;
 * neither the code nor the decision ever comes here.
 */
export async function downgrade(userId: string): Promise<void> {
  let looks = 0
  setHandler(look, () => {
    looks++
  })
  for (;;) {
    const seen = looks
    const leftMs = await settleDowngrade(userId)
    if (leftMs !== null) await condition(() => looks > seen, leftMs)
    else if (looks === seen) return
  }
}
