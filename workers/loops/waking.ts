import type { Client } from '@temporalio/client'
import type { Backoff } from '../../lib/async/backoff.ts'
import { relay } from '../../policy/installation/relay.ts'
import { failuresInARow } from '../../policy/rounds.ts'
import type { WorkflowRun } from '../temporal/workflow-runs.ts'

interface WakeEachOptions<Target> {
  backoff: Backoff
  idOf(target: Target): string
  /** Resolves to whether it was woken. */
  wake(target: Target): Promise<boolean>
  onError(id: string, error: unknown): void
}

/**
 * Wakes one target after the other; resolves to how many were woken. Each one comes again after a delay that grows, so that one that
 * cannot be woken holds up no other. Several failures in a row are Temporal's, and end the round.
 */
export async function wakeEach<Target>(
  targets: readonly Target[],
  { backoff, idOf, wake, onError }: WakeEachOptions<Target>,
): Promise<number> {
  backoff.forgetOthers(targets.map(idOf))
  let woken = 0
  let failures = 0
  for (const target of targets) {
    const id = idOf(target)
    backoff.seen(id)
    try {
      if (await wake(target)) woken++
      failures = 0
    } catch (error) {
      onError(id, error)
      if (++failures === failuresInARow) break
    }
  }
  return woken
}

/**
 * Ends a run whose workflow task keeps failing; resolves to whether it was one. All that it knows is in Postgres, and its claims become
 * those of the next run.
 */
export async function endStuckRun(client: Client, workflowId: string, run: WorkflowRun | undefined): Promise<boolean> {
  if (run?.status !== 'RUNNING' || run.failedTasks < relay.stuckTasks) return false
  await client.workflow.getHandle(workflowId, run.runId).terminate('Its workflow task fails; begun anew.')
  return true
}
