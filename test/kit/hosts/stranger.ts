import { randomUUID } from 'node:crypto'
import type { Client } from '@temporalio/client'
import { comesTrue } from '../comes-true.ts'

export interface AskedStep {
  queue: string
  name: string
  input: unknown[]
}

/** How a step ended: null = it was done; else type and words of its failure, and whether it is tried again. */
export type StepEnd = { type: string; message: string; retried: boolean } | null

const scheduleActivity = 1 // CommandType of Temporal's API

/**
 * Asks for steps as somebody does who reaches Temporal and has nothing of Berth: with a workflow of a type that nobody knows, on a
 * queue of its own, whose tasks it answers by hand. Resolves to how each step ended.
 */
export async function strangerAsks(client: Client, steps: AskedStep[]): Promise<StepEnd[]> {
  const { workflowService } = client.connection
  const { namespace } = client.options
  const queue = `stranger-${randomUUID()}`
  const run = await client.workflow.start('stranger', { taskQueue: queue, workflowId: queue })
  const task = await client.withDeadline(Date.now() + 60_000, () =>
    workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue } }),
  )
  const commands = steps.map(({ queue: name, ...step }, n) => ({
    commandType: scheduleActivity,
    scheduleActivityTaskCommandAttributes: {
      activityId: String(n + 1),
      activityType: { name: step.name },
      taskQueue: { name },
      input: { payloads: step.input.map(payload) },
      scheduleToCloseTimeout: { seconds: 120 as never },
      heartbeatTimeout: { seconds: 60 as never },
      retryPolicy: { maximumAttempts: 2 },
    },
  }))
  await workflowService.respondWorkflowTaskCompleted({ namespace, taskToken: task.taskToken, commands })
  try {
    let ends: StepEnd[] | undefined
    await comesTrue(async () => {
      ends = await endsOf(run, steps.length)
      return ends !== undefined
    }, 120)
    return ends!
  } finally {
    await run.terminate()
  }
}

const payload = (value: unknown) => ({
  metadata: { encoding: Buffer.from('json/plain') },
  data: Buffer.from(JSON.stringify(value)),
})

type Run = Awaited<ReturnType<Client['workflow']['start']>>

/** In the order of asking; undefined while one is still under way. */
async function endsOf(run: Run, count: number): Promise<StepEnd[] | undefined> {
  const { events } = await run.fetchHistory()
  const places = new Map<string, number>()
  const attempts = new Map<string, number>()
  const ends = new Map<number, StepEnd>()
  for (const event of events ?? []) {
    const place = (id: unknown) => places.get(String(id)) as number
    const scheduled = event.activityTaskScheduledEventAttributes
    if (scheduled) places.set(String(event.eventId), Number(scheduled.activityId) - 1)
    const started = event.activityTaskStartedEventAttributes
    if (started) attempts.set(String(started.scheduledEventId), started.attempt ?? 1)
    const done = event.activityTaskCompletedEventAttributes
    if (done) ends.set(place(done.scheduledEventId), null)
    const timedOut = event.activityTaskTimedOutEventAttributes
    const failed = event.activityTaskFailedEventAttributes ?? timedOut
    if (failed) {
      const { message, applicationFailureInfo } = failed.failure ?? {}
      ends.set(place(failed.scheduledEventId), {
        type: applicationFailureInfo?.type ?? 'none',
        message: message ?? '',
        retried: (attempts.get(String(failed.scheduledEventId)) ?? 1) > 1,
      })
    }
  }
  return ends.size === count ? Array.from({ length: count }, (_, n) => ends.get(n) ?? null) : undefined
}
