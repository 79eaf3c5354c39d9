import type { Logger } from 'pino'
import { queueEndedNotices, queueEndNotices, queueSuspensions, type StoppedApp } from '../../db/accounts/plan-ends.ts'
import { type Db, tryRoundLock } from '../../db/database.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { endNotices } from '../../policy/accounts/suspension.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { Lanes } from '../../workflows/client.ts'

export interface PlanEndOptions {
  db: Db
  lanes: Lanes
  plans: Plans
  log: Logger
  everySeconds?: number
  /** So long before its end an account is told, in seconds. */
  notices?: readonly number[]
  /** A stop that has failed is asked for again after so long, in seconds. */
  retrySeconds?: number
}

/**
 * Tells accounts that their plan ends or has ended, and stops their applications after it, until the signal aborts. Nothing is
 * started again by it: who has a plan again decides what shall run.
 */
export async function actOnPlanEnds(options: PlanEndOptions, signal: AbortSignal): Promise<void> {
  const everyMs = (options.everySeconds ?? roundSeconds.planEnds) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'plan ends: will look again')
  await loop(() => planEndsOnce(options), { signal, everyMs, onError })
}

/** One round, by one process at a time; resolves to the applications whose stop was queued. */
export async function planEndsOnce({
  db,
  lanes,
  plans,
  log,
  notices = endNotices,
  retrySeconds = 300,
}: PlanEndOptions): Promise<StoppedApp[]> {
  const stopped = await db.transaction(async trx => {
    if (!(await tryRoundLock(trx, 'plan-ends'))) return []
    await queueEndNotices(trx, plans, notices)
    await queueEndedNotices(trx, plans)
    return queueSuspensions(trx, plans, retrySeconds)
  })
  for (const { id, owner_id } of stopped) {
    log.info({ appId: id }, 'plan ends: application stopped')
    // The relay wakes who is not reached now.
    await lanes.wake(id, owner_id).catch(err => log.warn({ err, appId: id }, 'plan ends: not woken'))
  }
  return stopped
}
