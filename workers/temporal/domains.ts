import type { Client } from '@temporalio/client'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Domains } from '../../workflows/client.ts'
import type { domain } from '../../workflows/domain.ts'
import { domainId } from '../../workflows/ids.ts'
import { type WakeOptions, wakeWorkflow } from './workflow-wakes.ts'

/** Wakes workflows of host names through Temporal. */
export function temporalDomains(client: Client, options: WakeOptions): Domains {
  return {
    wake: hostname =>
      wakeWorkflow<typeof domain>(client, options, 'domain', {
        workflowId: domainId(hostname),
        args: [hostname],
        signal: 'wake',
        staticSummary: `Proof and certificate of ${hostname}`,
        typedSearchAttributes: [{ key: searchAttributes.hostname, value: hostname }],
      }),
  }
}
