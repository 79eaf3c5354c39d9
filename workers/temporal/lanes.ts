import type { Client } from '@temporalio/client'
import type { appLane, LaneInput } from '../../workflows/app-lane.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Lanes } from '../../workflows/client.ts'
import { laneId, platformQueue } from '../../workflows/ids.ts'

export interface LanesOptions {
  queuePrefix: string
  idleSeconds?: number
  deadlineMs?: number
}

/** Lanes over Temporal. Without the deadline the client would retry for minutes inside a request. */
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

export interface LaneRun {
  runId: string
  /** RUNNING, COMPLETED, ... */
  status: string
  /** How often its workflow task was tried in vain. A lane that nobody works on has not failed. */
  failedTasks: number
}

/** How the lane of an application stands; undefined when this Temporal never knew it. */
export async function laneRun(client: Client, appId: string): Promise<LaneRun | undefined> {
  try {
    const { runId, status, raw } = await client.withDeadline(Date.now() + 3000, () =>
      client.workflow.getHandle(laneId(appId)).describe(),
    )
    const attempt = raw.pendingWorkflowTask?.attempt ?? 1
    return { runId, status: status.name, failedTasks: attempt - 1 }
  } catch (error) {
    if ((error as Error).name === 'WorkflowNotFoundError') return undefined
    throw error
  }
}
