import { type Client, ScheduleAlreadyRunning, ScheduleNotFoundError, ScheduleOverlapPolicy } from '@temporalio/client'
import type { Logger } from 'pino'
import { loop } from '../../lib/async/loop.ts'
import { type Upkeep, upkeep, upkeepKinds } from '../../policy/objects/blob-upkeep.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { blobUpkeep } from '../../workflows/blob-upkeep.ts'
import { platformQueue } from '../../workflows/ids.ts'

export interface SchedulesOptions {
  client: Client
  queuePrefix: string
  log: Logger
  /** False: there shall be none, and nothing is removed by itself. */
  wanted: boolean
  /** How often it is looked whether they are still there, in seconds. */
  everySeconds?: number
}

export const scheduleId = (queuePrefix: string, kind: Upkeep): string => `${queuePrefix}blob/${kind}`

/**
 * Keeps one schedule for each kind of upkeep, or none, until the signal aborts: a Temporal that has lost them, or a new one, gets them
 * again. What a version before had planned otherwise is changed once, at the start.
 */
export async function keepSchedules(options: SchedulesOptions, signal: AbortSignal): Promise<void> {
  const known = new Set<Upkeep>()
  const round = () => (options.wanted ? ensureSchedules(options, known) : removeSchedules(options))
  const everyMs = (options.everySeconds ?? roundSeconds.schedules) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'schedules of blob storage: will try again')
  await loop(round, { signal, everyMs, onError })
}

/** One round. `known` holds the kinds whose plan is today's. */
export async function ensureSchedules(
  { client, queuePrefix }: Pick<SchedulesOptions, 'client' | 'queuePrefix'>,
  known = new Set<Upkeep>(),
): Promise<void> {
  for (const kind of upkeepKinds) {
    const plan = planOf(kind, queuePrefix)
    await client.withDeadline(Date.now() + 5000, async () => {
      const made = await client.schedule.create(plan).then(() => true, unlessThere)
      if (!made && !known.has(kind)) {
        const { spec, action, policies } = plan
        await client.schedule.getHandle(plan.scheduleId).update(({ state }) => ({ spec, action, policies, state }))
      }
    })
    known.add(kind)
  }
}

/** Takes them away: nothing is removed by itself from then on. */
export async function removeSchedules({
  client,
  queuePrefix,
}: Pick<SchedulesOptions, 'client' | 'queuePrefix'>): Promise<void> {
  for (const kind of upkeepKinds)
    await client.withDeadline(Date.now() + 5000, () =>
      client.schedule.getHandle(scheduleId(queuePrefix, kind)).delete().catch(unlessGone),
    )
}

/** Runs of one kind never overlap; one that was missed is not made up for, the next finds the same to do. */
function planOf(kind: Upkeep, queuePrefix: string) {
  return {
    scheduleId: scheduleId(queuePrefix, kind),
    spec: { intervals: [{ every: upkeep[kind].everySeconds * 1000 }] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' as const },
    action: {
      type: 'startWorkflow' as const,
      workflowType: 'blobUpkeep' satisfies typeof blobUpkeep.name,
      workflowId: scheduleId(queuePrefix, kind),
      args: [kind],
      taskQueue: platformQueue(queuePrefix),
      staticSummary: `Blob storage: ${upkeep[kind].words}`,
    },
  }
}

function unlessThere(error: unknown): false {
  if (error instanceof ScheduleAlreadyRunning) return false
  throw error
}

function unlessGone(error: unknown): void {
  if (!(error instanceof ScheduleNotFoundError)) throw error
}
