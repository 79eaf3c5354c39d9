import type { Client } from '@temporalio/client'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Downgrades } from '../../workflows/client.ts'
import type { downgrade } from '../../workflows/downgrade.ts'
import { downgradeId } from '../../workflows/ids.ts'
import { type WakeOptions, wakeWorkflow } from './workflow-wakes.ts'

/** Wakes steps through Temporal. */
export function temporalDowngrades(client: Client, options: WakeOptions): Downgrades {
  return {
    wake: userId =>
      wakeWorkflow<typeof downgrade>(client, options, 'downgrade', {
        workflowId: downgradeId(userId),
        args: [userId],
        signal: 'look',
        staticSummary: `Step of account ${userId} to the next lower plan`,
        typedSearchAttributes: [{ key: searchAttributes.ownerId, value: userId }],
      }),
  }
}
