import type { Logger } from 'pino'
import { type Db, transaction, tryRoundLock } from '../../db/database.ts'
import { ActRefused, cancelOperation } from '../../db/operations/operator-acts.ts'
import {
  listAppsDueForSnapshot,
  listStuckSnapshots,
  postponeSnapshot,
  postponeSnapshots,
} from '../../db/snapshots/automatic-snapshots.ts'
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
  /** How often due applications are looked up, in seconds. */
  lookSeconds?: number
  /** Time between two automatic snapshots of an application, in seconds. */
  everySeconds?: number
  /** Delay after a failed one, in seconds. */
  retrySeconds?: number
}

/** The actor of automatic snapshots. */
const automaticActor = 'platform'

/**
 * Queues the daily snapshot of every application whose account has a paid plan, until the signal aborts: one at a time for each
 * host, in one process.
 */
export async function takeAutomaticSnapshots(options: AutomaticOptions, signal: AbortSignal): Promise<void> {
  const everyMs = (options.lookSeconds ?? 20) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'automatic snapshots: will try again')
  await loop(() => queueDue(options), { signal, everyMs, onError })
}

/** One round; resolves to the applications whose snapshot was queued. */
export async function queueDue(options: AutomaticOptions): Promise<string[]> {
  const { db, lanes, plans, log, everySeconds = automaticSnapshotSeconds, retrySeconds = 3600 } = options
  const { due, stuck } = await transaction(db, async trx => {
    if (!(await tryRoundLock(trx, 'automatic-snapshots'))) return { due: [], stuck: [] }
    const found = await listAppsDueForSnapshot(trx, { plans, everySeconds, retrySeconds })
    const late = await listStuckSnapshots(trx, everySeconds)
    await postponeSnapshots(trx, found.later)
    return { due: found.due, stuck: late }
  })
  const queued: string[] = []
  const wake = (appId: string, ownerId: string) =>
    // The relay wakes a lane that cannot be reached now.
    lanes.wake(appId, ownerId).catch(err => log.warn({ err, appId }, 'automatic snapshots: not woken'))
  for (const { operation_id: operationId, app_id: appId, owner_id: ownerId } of stuck) {
    const given = await giveUp(db, operationId).catch(err =>
      log.warn({ err, appId }, 'automatic snapshots: not given up'),
    )
    if (given === 'asked') await wake(appId, ownerId)
  }
  // Each in its own transaction: another process that interleaves sees the operation that is being created.
  for (const { id: appId, owner_id: ownerId } of due) {
    const request = { appId, ownerId, actor: automaticActor, origin: 'automatic', plans } as const
    try {
      await postponeSnapshot(db, appId, retrySeconds) // first: if it cannot be queued, the others of its host must not wait for it
      if (!(await transaction(db, trx => queueSnapshot(trx, request)).catch(unlessBusy))) continue
    } catch (err) {
      log.warn({ err, appId }, 'automatic snapshots: not queued')
      continue
    }
    queued.push(appId)
    await wake(appId, ownerId)
  }
  return queued
}

/** Ends a snapshot that did not finish within its day, as its host is down or its application is being restored: the next one takes its slot. */
async function giveUp(db: Db, operationId: string): Promise<'ended' | 'asked' | null> {
  return transaction(db, trx => cancelOperation(trx, { operationId, actor: automaticActor })).catch(error => {
    if (error instanceof ActRefused) return null
    throw error
  })
}

/** The application was deleted, restored or copied by hand in the meantime: it becomes due again. */
function unlessBusy(error: unknown): null {
  if (error instanceof ApiError) return null
  throw error
}
