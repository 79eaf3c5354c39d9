import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { Db } from '../../db/database.ts'
import { findOperation, type OperationRow, type OperationTarget } from '../../db/operations/operations.ts'
import type { Config } from '../../policy/config.ts'
import { workflowRun } from '../../workers/temporal/workflow-runs.ts'
import { databaseLaneId, laneId } from '../../workflows/ids.ts'
import { sayOnStderr } from '../terminal/terminal.ts'
import type { LaneState } from './ops-explanation.ts'

/** Temporal's client takes longer to load than most commands to run, so only those that call it load it. */
async function temporalClient(config: Config): Promise<Client> {
  const { openTemporal } = await import('../../workers/connect.ts')
  return openTemporal(config)
}

/** The state of the lane of an application or a database in Temporal; never rejects. */
export const laneState = (config: Config, { type, id }: OperationTarget): Promise<LaneState> =>
  workflowState(config, type === 'app' ? laneId(id) : databaseLaneId(id))

/** The state of a workflow in Temporal, and where it is seen; never rejects. */
export async function workflowState(config: Config, workflowId: string): Promise<LaneState> {
  const { temporalUiUrl, temporalNamespace } = config
  const url =
    temporalUiUrl && `${temporalUiUrl}/namespaces/${temporalNamespace}/workflows/${encodeURIComponent(workflowId)}`
  const client = await temporalClient(config)
  const lane = await workflowRun(client, workflowId)
    .then(
      run => ({ status: run?.status ?? 'none', failedTasks: run?.failedTasks ?? 0 }),
      () => ({ status: 'unknown', failedTasks: 0 }),
    )
    .finally(() => client.connection.close())
  return { workflowId, url, ...lane }
}

/** Wakes a lane, or says that Temporal does not answer: then the relay wakes it once Temporal is back. */
export async function wakeLaneOrSay(config: Config, target: OperationTarget, ownerId: string): Promise<void> {
  if (!(await wakeLane(config, target, ownerId))) sayAsleep()
}

export const sayAsleep = (): void =>
  sayOnStderr('Temporal does not answer. The request is saved and takes effect when Temporal is back.')

export const isPending = ({ state }: Pick<OperationRow, 'state'>): boolean => ['queued', 'running'].includes(state)

const pollMs = 200

/** Resolves to an operation once it has ended, or as it is when the time is over. */
export async function awaitEnd(db: Db, operationId: string, seconds: number): Promise<OperationRow<string>> {
  for (const deadline = Date.now() + seconds * 1000; ; await sleep(pollMs)) {
    const now = (await findOperation(db, operationId)) as OperationRow<string>
    if (!isPending(now) || Date.now() > deadline) return now
  }
}

/** False if Temporal does not answer; the relay then wakes the lane a moment later. */
export async function wakeLane(config: Config, { type, id }: OperationTarget, ownerId: string): Promise<boolean> {
  const { temporalDatabaseLanes, temporalLanes } = await import('../../workers/temporal/lanes.ts')
  const lanes = type === 'app' ? temporalLanes : temporalDatabaseLanes
  return isWoken(config, client => lanes(client, { queuePrefix: config.queuePrefix }).wake(id, ownerId))
}

/** Whether Temporal has taken a wake-up. */
export async function isWoken(config: Config, wake: (client: Client) => Promise<void>): Promise<boolean> {
  const client = await temporalClient(config)
  return wake(client)
    .then(
      () => true,
      () => false,
    )
    .finally(() => client.connection.close())
}
