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
  /** False = no schedules: nothing is removed automatically. */
  isEnabled: boolean
  /** How often they are checked, in seconds. */
  everySeconds?: number
}

export const scheduleId = (queuePrefix: string, kind: Upkeep): string => `${queuePrefix}blob/${kind}`

/**
 * Maintains one schedule for each kind of upkeep, or none, until the signal aborts: a new Temporal, or one that has lost them, gets them
 * again. Schedules of an earlier version are updated once, at the start.
 */
export async function keepSchedules(options: SchedulesOptions, signal: AbortSignal): Promise<void> {
  const upToDate = new Set<Upkeep>()
  const round = () => (options.isEnabled ? ensureSchedules(options, upToDate) : removeSchedules(options))
  const everyMs = (options.everySeconds ?? roundSeconds.schedules) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'schedules of blob storage: will try again')
  await loop(round, { signal, everyMs, onError })
}

/** Runs one round. `upToDate` holds the kinds whose schedule is that of this version. */
export async function ensureSchedules(
  { client, queuePrefix }: Pick<SchedulesOptions, 'client' | 'queuePrefix'>,
  upToDate = new Set<Upkeep>(),
): Promise<void> {
  for (const kind of upkeepKinds) {
    const plan = planOf(kind, queuePrefix)
    await client.withDeadline(Date.now() + 5000, async () => {
      const isNew = await client.schedule.create(plan).then(() => true, ignoreIfExists)
      if (!isNew && !upToDate.has(kind)) {
        const { spec, action, policies } = plan
        await client.schedule.getHandle(plan.scheduleId).update(({ state }) => ({ spec, action, policies, state }))
      }
    })
    upToDate.add(kind)
  }
}

/** Removes the schedules, so that nothing is removed automatically any more. */
export async function removeSchedules({
  client,
  queuePrefix,
}: Pick<SchedulesOptions, 'client' | 'queuePrefix'>): Promise<void> {
  for (const kind of upkeepKinds)
    await client.withDeadline(Date.now() + 5000, () =>
      client.schedule.getHandle(scheduleId(queuePrefix, kind)).delete().catch(ignoreIfMissing),
    )
}

/** Runs of one kind never overlap; a missed run is not repeated, since the next one finds the same work. */
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

function ignoreIfExists(error: unknown): false {
  if (error instanceof ScheduleAlreadyRunning) return false
  throw error
}

function ignoreIfMissing(error: unknown): void {
  if (!(error instanceof ScheduleNotFoundError)) throw error
}
