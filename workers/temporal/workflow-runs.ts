import type { Client } from '@temporalio/client'

export interface WorkflowRun {
  runId: string
  /** RUNNING, COMPLETED, ... */
  status: string
  /** How often its workflow task was tried in vain. A workflow that nobody works on has not failed. */
  failedTasks: number
}

/** How the newest run of a workflow stands; undefined when this Temporal never knew it. Rejects after 3 s without an answer. */
export async function workflowRun(client: Client, workflowId: string): Promise<WorkflowRun | undefined> {
  try {
    const { runId, status, raw } = await client.withDeadline(Date.now() + 3000, () =>
      client.workflow.getHandle(workflowId).describe(),
    )
    const attempt = raw.pendingWorkflowTask?.attempt ?? 1
    return { runId, status: status.name, failedTasks: attempt - 1 }
  } catch (error) {
    if ((error as Error).name === 'WorkflowNotFoundError') return undefined
    throw error
  }
}
