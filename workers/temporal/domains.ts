import type { Client } from '@temporalio/client'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Domains } from '../../workflows/client.ts'
import type { domain } from '../../workflows/domain.ts'
import { domainId, platformQueue } from '../../workflows/ids.ts'

/** Wakes workflows of host names through Temporal. Without the deadline the client would retry for minutes within a request. */
export function temporalDomains(
  client: Client,
  { queuePrefix, deadlineMs = 3000 }: { queuePrefix: string; deadlineMs?: number },
): Domains {
  return {
    async wake(hostname) {
      await client.withDeadline(Date.now() + deadlineMs, () =>
        client.workflow.signalWithStart<typeof domain>('domain', {
          workflowId: domainId(hostname),
          taskQueue: platformQueue(queuePrefix),
          args: [hostname],
          signal: 'wake',
          workflowTaskTimeout: '10s',
          staticSummary: `Proof and certificate of ${hostname}`,
          typedSearchAttributes: [{ key: searchAttributes.hostname, value: hostname }],
        }),
      )
    },
  }
}
