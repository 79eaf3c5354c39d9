import type { Client, WorkflowSignalWithStartOptions } from '@temporalio/client'
import type { Workflow } from '@temporalio/common'
import { platformQueue } from '../../workflows/ids.ts'

export interface WakeOptions {
  queuePrefix: string
  deadlineMs?: number
}

/** Signals a workflow of the platform's queue, or starts it. Without the deadline the client would retry for minutes within a request. */
export async function wakeWorkflow<W extends Workflow>(
  client: Client,
  { queuePrefix, deadlineMs = 3000 }: WakeOptions,
  type: string,
  options: Omit<WorkflowSignalWithStartOptions, 'taskQueue' | 'workflowTaskTimeout' | 'args'> & { args: Parameters<W> },
): Promise<void> {
  await client.withDeadline(Date.now() + deadlineMs, () =>
    client.workflow.signalWithStart(type, {
      ...options,
      taskQueue: platformQueue(queuePrefix),
      workflowTaskTimeout: '10s',
    } as WorkflowSignalWithStartOptions),
  )
}
