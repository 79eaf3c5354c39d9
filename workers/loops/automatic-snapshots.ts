import type { Logger } from 'pino'
import { type Db, isMine, transaction } from '../../db/database.ts'
import { type DueApp, dueApps, postpone, postponeFor } from '../../db/snapshots/automatic-snapshots.ts'
import { queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { ApiError } from '../../policy/errors.ts'
import { automaticSnapshotSeconds } from '../../policy/rounds.ts'
import type { Lanes } from '../../workflows/client.ts'

export interface AutomaticOptions {
  db: Db
  lanes: Lanes
  plans: Plans
  log: Logger
  /** How often it is looked who is due, in seconds. */
  lookSeconds?: number
  /** Time between two automatic snapshots of an application, in seconds. */
  everySeconds?: number
  /** After a failed one so long, in seconds. */
  retrySeconds?: number
}

/** Who asks for automatic snapshots. */
export const automaticActor = 'platform'

/**
 * Queues the daily snapshot of every application whose account has a paid plan, until the signal aborts: one at a time of each
 * host, by one process.
 */
export async function takeAutomaticSnapshots(options: AutomaticOptions, signal: AbortSignal): Promise<void> {
  const everyMs = (options.lookSeconds ?? 20) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'automatic snapshots: will look again')
  await loop(() => queueDue(options), { signal, everyMs, onError })
}

/** One round; resolves to the applications whose snapshot was queued. */
export async function queueDue({
  db,
  lanes,
  plans,
  log,
  everySeconds = automaticSnapshotSeconds,
  retrySeconds = 3600,
}: AutomaticOptions): Promise<string[]> {
  const queued = await transaction(db, async trx => {
    const written: DueApp[] = []
    if (!(await isMine(trx, 'automatic-snapshots'))) return written
    const { due, later } = await dueApps(trx, { plans, everySeconds, retrySeconds })
    for (const app of due) {
      const wish = { appId: app.id, ownerId: app.owner_id, actor: automaticActor, origin: 'automatic', plans } as const
      if (await queueSnapshot(trx, wish).catch(unlessBusy)) written.push(app)
      await postponeFor(trx, app.id, retrySeconds)
    }
    await postpone(trx, later)
    return written
  })
  for (const { id, owner_id } of queued) {
    // The relay wakes who is not reached now.
    await lanes.wake(id, owner_id).catch(err => log.warn({ err, appId: id }, 'automatic snapshots: not woken'))
  }
  return queued.map(({ id }) => id)
}

/** It was deleted, restored or copied by hand in the meantime: its turn comes again. */
function unlessBusy(error: unknown): null {
  if (error instanceof ApiError) return null
  throw error
}
