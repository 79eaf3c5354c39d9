import type { Config } from '../../policy/config.ts'
import { openTemporal } from '../../workers/connect.ts'
import { laneRun, temporalLanes } from '../../workers/temporal/lanes.ts'
import { laneId } from '../../workflows/ids.ts'
import type { LaneState } from './ops-explanation.ts'

const deadlineMs = 3000

/** The state of an application's lane in Temporal; never rejects. */
export async function laneState(config: Config, appId: string): Promise<LaneState> {
  const workflowId = laneId(appId)
  const { temporalUiUrl, temporalNamespace } = config
  const url =
    temporalUiUrl && `${temporalUiUrl}/namespaces/${temporalNamespace}/workflows/${encodeURIComponent(workflowId)}`
  const client = openTemporal(config)
  const lane = await laneRun(client, appId)
    .then(
      run => ({ status: run?.status ?? 'none', failedTasks: run?.failedTasks ?? 0 }),
      () => ({ status: 'unknown', failedTasks: 0 }),
    )
    .finally(() => client.connection.close())
  return { workflowId, url, ...lane }
}

/** False if Temporal does not answer; the relay then wakes the lane a moment later. */
export async function wakeLane(config: Config, appId: string, ownerId: string): Promise<boolean> {
  const client = openTemporal(config)
  return temporalLanes(client, { queuePrefix: config.queuePrefix, deadlineMs })
    .wake(appId, ownerId)
    .then(
      () => true,
      () => false,
    )
    .finally(() => client.connection.close())
}
