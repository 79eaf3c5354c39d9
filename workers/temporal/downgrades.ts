import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { overdueDowngrades } from '../../db/accounts/downgrades.ts'
import type { Db } from '../../db/database.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Downgrades } from '../../workflows/client.ts'
import type { downgrade } from '../../workflows/downgrade.ts'
import { downgradeId, platformQueue } from '../../workflows/ids.ts'

/** Steps over Temporal. Without the deadline the client would retry for minutes inside a request. */
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

/** A step may be due this long before its wake-up counts as lost. */
const overdueSeconds = 2

/** One round; resolves to how many were woken. Waking one that runs already does no harm, so any process may. */
export async function healDowngrades({
  db,
  downgrades,
  log,
}: {
  db: Db
  downgrades: Downgrades
  log: Logger
}): Promise<number> {
  const overdue = await overdueDowngrades(db, overdueSeconds)
  for (const userId of overdue) {
    await downgrades.wake(userId)
    log.info({ userId }, 'relay: downgrade woken')
  }
  return overdue.length
}
