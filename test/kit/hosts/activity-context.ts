import { asyncLocalStorage, type Context } from '@temporalio/activity'
import type { OperationClaim } from '../../../db/operations/operation-claims.ts'

/** Runs an activity like a worker, for this run and step of a lane; `signal` aborts when the activity is given up. */
export function asActivity<T>(
  { run, step }: OperationClaim,
  work: () => Promise<T>,
  signal: AbortSignal = new AbortController().signal,
  attempt = 1,
): Promise<T> {
  const info = { workflowExecution: { workflowId: 'app/test', runId: run }, activityId: String(step), attempt }
  const context = { info, cancellationSignal: signal, heartbeat: () => {} }
  return asyncLocalStorage.run(context as unknown as Context, work)
}
