import type { Client } from '@temporalio/client'

// A poll stays open for a minute at most, so a live worker was seen within it.
const freshMs = 90_000

/** Whether a live worker polls this queue for activities. Rejects when Temporal does not answer within 5 s. */
async function isPolled(client: Client, taskQueue: string): Promise<boolean> {
  const { pollers } = await client.withDeadline(Date.now() + 5000, () =>
    client.connection.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: taskQueue },
      taskQueueType: 2, // activities
    }),
  )
  return (pollers ?? []).some(({ lastAccessTime }) => Date.now() - Number(lastAccessTime?.seconds) * 1000 < freshMs)
}

/** The queues that no live worker polls. Rejects when Temporal does not answer within 5 s. */
export async function unpolled(client: Client, taskQueues: readonly string[]): Promise<string[]> {
  const polled = await Promise.all(taskQueues.map(queue => isPolled(client, queue)))
  return taskQueues.filter((_, n) => !polled[n])
}
