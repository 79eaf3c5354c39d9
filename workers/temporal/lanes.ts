import type { Client } from '@temporalio/client'
import type { appLane, LaneInput } from '../../workflows/app-lane.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Lanes } from '../../workflows/client.ts'
import { laneId, platformQueue } from '../../workflows/ids.ts'
import { type WorkflowRun, workflowRun } from './workflow-runs.ts'

export interface LanesOptions {
  queuePrefix: string
  idleSeconds?: number
  deadlineMs?: number
}

/** Wakes lanes through Temporal. Without the deadline the client would retry for minutes within a request. */
export function temporalLanes(
  client: Client,
  { queuePrefix, idleSeconds = 30, deadlineMs = 3000 }: LanesOptions,
): Lanes {
  return {
    async wake(appId, ownerId) {
      const input: LaneInput = { appId, idleSeconds, queuePrefix }
      await client.withDeadline(Date.now() + deadlineMs, () =>
        client.workflow.signalWithStart<typeof appLane>('appLane', {
          workflowId: laneId(appId),
          taskQueue: platformQueue(queuePrefix),
          args: [input],
          signal: 'wake',
          workflowTaskTimeout: '10s',
          staticSummary: `Operations of application ${appId}`,
          priority: { fairnessKey: ownerId },
          typedSearchAttributes: [
            { key: searchAttributes.appId, value: appId },
            { key: searchAttributes.ownerId, value: ownerId },
          ],
        }),
      )
    },
  }
}

/** The state of an application's lane; undefined if this Temporal has never run it. */
export function laneRun(client: Client, appId: string): Promise<WorkflowRun | undefined> {
  return workflowRun(client, laneId(appId))
}
