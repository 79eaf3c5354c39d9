import type { Client, WorkflowSignalWithStartOptions } from '@temporalio/client'
import type { Workflow } from '@temporalio/common'
import { platformQueue } from '../../workflows/ids.ts'

export interface WakeOptions {
  queuePrefix: string
}

/** Signals a workflow of the platform's queue, or starts it. Rejects after the deadline of the client. */
export async function wakeWorkflow<W extends Workflow>(
  client: Client,
  { queuePrefix }: WakeOptions,
  type: string,
  options: Omit<WorkflowSignalWithStartOptions, 'taskQueue' | 'workflowTaskTimeout' | 'args'> & { args: Parameters<W> },
): Promise<void> {
  await client.workflow.signalWithStart(type, {
    ...options,
    taskQueue: platformQueue(queuePrefix),
    workflowTaskTimeout: '10s',
  } as WorkflowSignalWithStartOptions)
}
