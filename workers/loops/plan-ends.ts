import type { Logger } from 'pino'
import {
  queueEndedNotices,
  queueEndNotices,
  queueSuspensions,
  type StoppedTarget,
} from '../../db/accounts/plan-ends.ts'
import { type Db, tryRoundLock } from '../../db/database.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { endNotices } from '../../policy/accounts/suspension.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { Lanes } from '../../workflows/client.ts'
import { subjectOf } from './waking.ts'

export interface PlanEndOptions {
  db: Db
  lanes: Lanes
  databaseLanes: Lanes
  plans: Plans
  log: Logger
  everySeconds?: number
  /** How long before the end of its plan an account is notified, in seconds. */
  notices?: readonly number[]
  /** Delay before a failed stop is queued again, in seconds. */
  retrySeconds?: number
}

/**
 * Notifies accounts that their plan ends or has ended, and then stops their applications and databases, until the signal aborts. It
 * never starts any: an account with a new plan decides which ones to run.
 */
export async function actOnPlanEnds(options: PlanEndOptions, signal: AbortSignal): Promise<void> {
  const everyMs = (options.everySeconds ?? roundSeconds.planEnds) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'plan ends: will try again')
  await loop(() => planEndsOnce(options), { signal, everyMs, onError })
}

/** Runs one round, in one process at a time; resolves to what it queued a stop of. */
export async function planEndsOnce({
  db,
  lanes,
  databaseLanes,
  plans,
  log,
  notices = endNotices,
  retrySeconds = 300,
}: PlanEndOptions): Promise<StoppedTarget[]> {
  const stopped = await db.transaction(async trx => {
    if (!(await tryRoundLock(trx, 'plan-ends'))) return []
    await queueEndNotices(trx, plans, notices)
    await queueEndedNotices(trx, plans)
    return queueSuspensions(trx, plans, retrySeconds)
  })
  for (const { type, id, owner_id } of stopped) {
    const subject = subjectOf({ type, id })
    log.info(subject, 'plan ends: stop queued')
    // The relay wakes a lane that cannot be reached now.
    const lane = type === 'app' ? lanes : databaseLanes
    await lane.wake(id, owner_id).catch(err => log.warn({ err, ...subject }, 'plan ends: not woken'))
  }
  return stopped
}
