import type { Client } from '@temporalio/client'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Downgrades } from '../../workflows/client.ts'
import type { downgrade } from '../../workflows/downgrade.ts'
import { downgradeId, platformQueue } from '../../workflows/ids.ts'

/** Wakes steps through Temporal. Without the deadline the client would retry for minutes within a request. */
export function temporalDowngrades(
  client: Client,
  { queuePrefix, deadlineMs = 3000 }: { queuePrefix: string; deadlineMs?: number },
): Downgrades {
  return {
    async wake(userId) {
      await client.withDeadline(Date.now() + deadlineMs, () =>
        client.workflow.signalWithStart<typeof downgrade>('downgrade', {
          workflowId: downgradeId(userId),
          taskQueue: platformQueue(queuePrefix),
          args: [userId],
          signal: 'look',
          workflowTaskTimeout: '10s',
          staticSummary: `Step of account ${userId} to the next lower plan`,
          typedSearchAttributes: [{ key: searchAttributes.ownerId, value: userId }],
        }),
      )
    },
  }
}
