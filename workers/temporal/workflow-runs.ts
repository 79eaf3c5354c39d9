import type { Client } from '@temporalio/client'

export interface WorkflowRun {
  runId: string
  /** RUNNING, COMPLETED, ... */
  status: string
  /** Failed attempts at its workflow task. A workflow without a worker has not failed. */
  failedTasks: number
}

/** The newest run of a workflow; undefined if this Temporal has never run it. Rejects after the deadline of the client. */
export async function workflowRun(client: Client, workflowId: string): Promise<WorkflowRun | undefined> {
  try {
    const { runId, status, raw } = await client.workflow.getHandle(workflowId).describe()
    const attempt = raw.pendingWorkflowTask?.attempt ?? 1
    return { runId, status: status.name, failedTasks: attempt - 1 }
  } catch (error) {
    if ((error as Error).name === 'WorkflowNotFoundError') return undefined
    throw error
  }
}
