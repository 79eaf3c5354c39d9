import type { Client } from '@temporalio/client'
import type { OperationTarget } from '../../db/operations/operation-kinds.ts'
import type { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import { failuresInARow } from '../../policy/rounds.ts'
import { databaseLaneId, laneId } from '../../workflows/ids.ts'
import type { WorkflowRun } from '../temporal/workflow-runs.ts'

/** Id of the workflow that runs the operations of an application or database. */
export const laneOf = ({ type, id }: OperationTarget): string => (type === 'app' ? laneId(id) : databaseLaneId(id))

/** An application or database, as logs name it. */
export const subjectOf = ({ type, id }: OperationTarget) => (type === 'app' ? { appId: id } : { databaseId: id })

interface TryEachOptions<Target> {
  backoff: Backoff
  idOf(target: Target): string
  /** Resolves to whether it did something. */
  attempt(target: Target): Promise<boolean>
  onError(target: Target, error: unknown): void
}

/**
 * Wakes or settles one target at a time; resolves to the number for which something was done. Each target is tried again after a growing
 * delay, so that one that always fails does not delay others. Several failures in a row mean that Temporal is down, and end the round.
 */
export async function tryEach<Target>(
  targets: readonly Target[],
  { backoff, idOf, attempt, onError }: TryEachOptions<Target>,
): Promise<number> {
  backoff.forgetOthers(targets.map(idOf))
  let done = 0
  let failures = 0
  for (const target of targets) {
    backoff.seen(idOf(target))
    try {
      if (await attempt(target)) done++
      failures = 0
    } catch (error) {
      onError(target, error)
      if (++failures === failuresInARow) break
    }
  }
  return done
}

/**
 * Ends a run whose workflow task keeps failing; resolves to whether it did. All its state is in Postgres, and the next run takes over its
 * claims.
 */
export async function endStuckRun(client: Client, workflowId: string, run: WorkflowRun | undefined): Promise<boolean> {
  if (run?.status !== 'RUNNING' || run.failedTasks < relay.stuckTasks) return false
  await client.workflow.getHandle(workflowId, run.runId).terminate('Its workflow task keeps failing; restarted.')
  return true
}
