import type { Client } from '@temporalio/client'
import type { appLane, LaneInput } from '../../workflows/app-lane.ts'
import { searchAttributes } from '../../workflows/attributes.ts'

/** Wakes the lane of an application. Durable on return and without need of a worker; may fail: the relay heals it. */
export interface Lanes {
  wake(appId: string, ownerId: string): Promise<void>
}

export interface LanesOptions {
  queuePrefix: string
  idleSeconds?: number
  deadlineMs?: number
}

export const laneId = (appId: string): string => `app/${appId}`
export const platformQueue = (prefix: string): string => `${prefix}platform`

/** The task queues of a container host, which its process polls (`host-queues.ts`). */
export function queuesOfHost(prefix: string, hostId: string) {
  const host = `${prefix}host/${hostId}`
  return {
    /** Deploys, and what lanes of an older version ask for. */
    deploys: host,
    /** Commands and undo steps: nothing that takes long comes here. */
    commands: `${host}/commands`,
    /** Fetches and builds wait here for one of the host's slots, accounts in turn. */
    builds: `${host}/builds`,
    /** Snapshots wait here, and are taken one at a time. */
    snapshots: `${host}/snapshots`,
    /** The next snapshot waits here for its place, the others behind it. */
    snapshotPlaces: `${host}/snapshots/places`,
  }
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
