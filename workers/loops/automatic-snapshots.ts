import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Db, isMine, transaction } from '../../db/database.ts'
import { ActRefused, cancelOperation } from '../../db/operations/operator-acts.ts'
import { dueApps, stuckSnapshots } from '../../db/snapshots/automatic-snapshots.ts'
import { queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { Backoff } from '../../lib/backoff.ts'
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
  const failing = failingApps()
  while (!signal.aborted) {
    await queueDue(options, failing).catch(error =>
      options.log.warn({ err: error }, 'automatic snapshots: will look again'),
    )
    await sleep((options.lookSeconds ?? 20) * 1000, undefined, { signal }).catch(() => {})
  }
}

/** Applications whose snapshot could not be queued: the others of their hosts are not to wait for them. */
const failingApps = () => new Backoff({ firstSeconds: 60, maxSeconds: 3600 })

/** One round; resolves to the applications whose snapshot was queued. */
export async function queueDue(options: AutomaticOptions, failing = failingApps()): Promise<string[]> {
  const { db, lanes, plans, log, everySeconds = automaticSnapshotSeconds, retrySeconds = 3600 } = options
  const { due, stuck } = await db.transaction(async trx =>
    (await isMine(trx, 'automatic-snapshots'))
      ? {
          due: await dueApps(trx, { plans, everySeconds, retrySeconds, except: failing.waiting() }),
          stuck: await stuckSnapshots(trx, everySeconds),
        }
      : { due: [], stuck: [] },
  )
  const queued: string[] = []
  const wake = (appId: string, ownerId: string) =>
    // The relay wakes who is not reached now.
    lanes.wake(appId, ownerId).catch(err => log.warn({ err, appId }, 'automatic snapshots: not woken'))
  for (const { operation_id: operationId, app_id: appId, owner_id: ownerId } of stuck) {
    const given = await giveUp(db, operationId).catch(err =>
      log.warn({ err, appId }, 'automatic snapshots: not given up'),
    )
    if (given === 'asked') await wake(appId, ownerId)
  }
  // Each in a transaction of its own: another process that comes between finds the one that is being made.
  for (const { id: appId, owner_id: ownerId } of due) {
    const wish = { appId, ownerId, actor: automaticActor, origin: 'automatic', plans } as const
    try {
      if (!(await transaction(db, trx => queueSnapshot(trx, wish)).catch(unlessBusy))) continue
    } catch (err) {
      failing.seen(appId)
      log.warn({ err, appId }, 'automatic snapshots: not queued')
      continue
    }
    failing.forget(appId)
    queued.push(appId)
    await wake(appId, ownerId)
  }
  return queued
}

/** What could not be made in its day, as its host is away or its application is being put back, makes room for the next day's. */
async function giveUp(db: Db, operationId: string): Promise<'ended' | 'asked' | null> {
  return transaction(db, trx => cancelOperation(trx, { operationId, actor: automaticActor })).catch(error => {
    if (error instanceof ActRefused) return null
    throw error
  })
}

/** It was deleted, restored or copied by hand in the meantime: its turn comes again. */
function unlessBusy(error: unknown): null {
  if (error instanceof ApiError) return null
  throw error
}
