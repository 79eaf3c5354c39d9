import type { OperationTarget } from '../../db/operations/operations.ts'
import type { Config } from '../../policy/config.ts'
import { openTemporal } from '../../workers/connect.ts'
import { laneRun, temporalDatabaseLanes, temporalLanes } from '../../workers/temporal/lanes.ts'
import { workflowRun } from '../../workers/temporal/workflow-runs.ts'
import { databaseLaneId, laneId } from '../../workflows/ids.ts'
import type { LaneState } from './ops-explanation.ts'

const deadlineMs = 3000

/** The state of the lane of an application or a database in Temporal; never rejects. */
export async function laneState(config: Config, { type, id }: OperationTarget): Promise<LaneState> {
  const workflowId = type === 'app' ? laneId(id) : databaseLaneId(id)
  const { temporalUiUrl, temporalNamespace } = config
  const url =
    temporalUiUrl && `${temporalUiUrl}/namespaces/${temporalNamespace}/workflows/${encodeURIComponent(workflowId)}`
  const client = openTemporal(config)
  const lane = await (type === 'app' ? laneRun(client, id) : workflowRun(client, workflowId))
    .then(
      run => ({ status: run?.status ?? 'none', failedTasks: run?.failedTasks ?? 0 }),
      () => ({ status: 'unknown', failedTasks: 0 }),
    )
    .finally(() => client.connection.close())
  return { workflowId, url, ...lane }
}

/** False if Temporal does not answer; the relay then wakes the lane a moment later. */
export async function wakeLane(config: Config, { type, id }: OperationTarget, ownerId: string): Promise<boolean> {
  const client = openTemporal(config)
  const lanes = type === 'app' ? temporalLanes : temporalDatabaseLanes
  return lanes(client, { queuePrefix: config.queuePrefix, deadlineMs })
    .wake(id, ownerId)
    .then(
      () => true,
      () => false,
    )
    .finally(() => client.connection.close())
}
