import type { Client } from '@temporalio/client'
import type { LaneInput } from '../../workflows/app-lane.ts'
import { searchAttributes } from '../../workflows/attributes.ts'
import type { Lanes } from '../../workflows/client.ts'
import type { DatabaseLaneInput } from '../../workflows/databases/database-lane.ts'
import { databaseLaneId, laneId } from '../../workflows/ids.ts'
import { type WorkflowRun, workflowRun } from './workflow-runs.ts'
import { type WakeOptions, wakeWorkflow } from './workflow-wakes.ts'

export interface LanesOptions extends WakeOptions {
  idleSeconds?: number
}

/** Lanes of many accounts share the queue fairly. */
const signalOf = (ownerId: string) => ({ signal: 'wake', priority: { fairnessKey: ownerId } })

/** Wakes lanes of applications through Temporal. */
export function temporalLanes(client: Client, { idleSeconds = 30, ...options }: LanesOptions): Lanes {
  const { queuePrefix } = options
  return {
    wake(appId, ownerId) {
      const input: LaneInput = { appId, idleSeconds, queuePrefix }
      return wakeWorkflow(client, options, 'appLane', {
        ...signalOf(ownerId),
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
      return wakeWorkflow(client, options, 'databaseLane', {
        ...signalOf(ownerId),
        workflowId: databaseLaneId(databaseId),
        args: [input],
        staticSummary: `Operations of database ${databaseId}`,
        typedSearchAttributes: [{ key: searchAttributes.ownerId, value: ownerId }],
      })
    },
  }
}

/** The state of an application's lane; undefined if this Temporal has never run it. */
export function laneRun(client: Client, appId: string): Promise<WorkflowRun | undefined> {
  return workflowRun(client, laneId(appId))
}
