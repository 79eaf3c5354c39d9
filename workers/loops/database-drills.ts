import type { Logger } from 'pino'
import { type Db, transaction, tryRoundLock } from '../../db/database.ts'
import { listDueDrills, queueDrill } from '../../db/databases/database-drills.ts'
import { ActRefused } from '../../db/operations/operator-acts.ts'
import { loop } from '../../lib/async/loop.ts'
import { drillRules } from '../../policy/databases/drills.ts'
import type { Lanes } from '../../workflows/client.ts'

export interface DrillsOptions {
  db: Db
  databaseLanes: Lanes
  log: Logger
  /** Days after which the newest snapshot of a database is tried again; 0 = never. */
  everyDays: number
  diskMbPer256Mb: number
  lookSeconds?: number
}

/** The actor of automatic drills. */
const scheduleActor = 'platform'

/** Requests the drills that are due, until the signal aborts: one at a time for each host, in one process. */
export async function requestDrills(options: DrillsOptions, signal: AbortSignal): Promise<void> {
  if (options.everyDays === 0) return
  const everyMs = (options.lookSeconds ?? drillRules.lookSeconds) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'drills: will try again')
  await loop(() => requestDueDrills(options), { signal, everyMs, onError })
}

/** One round; resolves to the databases whose drill was requested. */
export async function requestDueDrills(options: DrillsOptions): Promise<string[]> {
  const { db, databaseLanes, log, everyDays, diskMbPer256Mb } = options
  const due = await transaction(db, async trx =>
    (await tryRoundLock(trx, 'database-drills')) ? listDueDrills(trx, { everyDays, limit: drillRules.atOnce }) : [],
  )
  const requested: string[] = []
  // Each in its own transaction: one that cannot be requested does not hold up the others.
  for (const { id: databaseId, owner_id: ownerId } of due) {
    const act = { databaseId, actor: scheduleActor }
    try {
      const queued = await transaction(db, trx => queueDrill(trx, act, { diskMbPer256Mb, evenBusy: false }))
      if (!queued) continue
    } catch (err) {
      // Deleted or restored meanwhile: it becomes due again.
      if (!(err instanceof ActRefused)) log.warn({ err, databaseId }, 'drills: could not queue a drill')
      continue
    }
    requested.push(databaseId)
    // The relay wakes a lane that cannot be reached now.
    await databaseLanes.wake(databaseId, ownerId).catch(err => log.warn({ err, databaseId }, 'drills: not woken'))
  }
  return requested
}
