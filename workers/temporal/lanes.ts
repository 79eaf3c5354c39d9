import type { Client, WorkflowStartOptions } from '@temporalio/client'
import type { LaneInput } from '../../workflows/app-lane.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Lanes } from '../../workflows/client.ts'
import type { DatabaseLaneInput } from '../../workflows/databases/database-lane.ts'
import { databaseLaneId, laneId, platformQueue } from '../../workflows/ids.ts'
import { type WorkflowRun, workflowRun } from './workflow-runs.ts'

export interface LanesOptions {
  queuePrefix: string
  idleSeconds?: number
  deadlineMs?: number
}

/** Wakes lanes of applications through Temporal. */
export function temporalLanes(client: Client, { idleSeconds = 30, ...options }: LanesOptions): Lanes {
  const { queuePrefix } = options
  return {
    wake(appId, ownerId) {
      const input: LaneInput = { appId, idleSeconds, queuePrefix }
      return wake(client, options, 'appLane', ownerId, {
        workflowId: laneId(appId),
        args: [input],
        staticSummary: `Operations of application ${appId}`,
        typedSearchAttributes: [
          { key: searchAttributes.appId, value: appId },
          { key: searchAttributes.ownerId, value: ownerId },
        ],
      })
    },
  }
}

/** Wakes lanes of databases through Temporal. */
export function temporalDatabaseLanes(client: Client, { idleSeconds = 30, ...options }: LanesOptions): Lanes {
  return {
    wake(databaseId, ownerId) {
      const input: DatabaseLaneInput = { databaseId, idleSeconds }
      return wake(client, options, 'databaseLane', ownerId, {
        workflowId: databaseLaneId(databaseId),
        args: [input],
        staticSummary: `Operations of database ${databaseId}`,
        typedSearchAttributes: [{ key: searchAttributes.ownerId, value: ownerId }],
      })
    },
  }
}

/** Without the deadline the client would retry for minutes within a request. */
async function wake(
  client: Client,
  { queuePrefix, deadlineMs = 3000 }: LanesOptions,
  workflow: 'appLane' | 'databaseLane',
  ownerId: string,
  lane: Pick<WorkflowStartOptions, 'workflowId' | 'args' | 'staticSummary' | 'typedSearchAttributes'>,
): Promise<void> {
  await client.withDeadline(Date.now() + deadlineMs, () =>
    client.workflow.signalWithStart(workflow, {
      ...lane,
      taskQueue: platformQueue(queuePrefix),
      signal: 'wake',
      workflowTaskTimeout: '10s',
      priority: { fairnessKey: ownerId },
    }),
  )
}

/** The state of an application's lane; undefined if this Temporal has never run it. */
export function laneRun(client: Client, appId: string): Promise<WorkflowRun | undefined> {
  return workflowRun(client, laneId(appId))
}
