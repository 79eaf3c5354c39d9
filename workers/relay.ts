import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { Logger } from 'pino'
import { undoForgotten } from '../db/acceptance.ts'
import { type Db, isMine } from '../db/database.ts'
import * as operations from '../db/operations.ts'
import { acceptance } from '../policy/acceptance.ts'
import { type Downgrades, healDowngrades } from './downgrades.ts'
import { type Lanes, laneRuns } from './lanes.ts'

export interface RelayOptions {
  db: Db
  client: Client
  lanes: Lanes
  downgrades: Downgrades
  log: Logger
  everySeconds?: number
}

/** An operation may wait this long for the wake-up of the process that wrote it. */
const queuedSeconds = 1
const runningSeconds = 5

/**
 * Heals lost wake-ups until the signal aborts: what is queued, or claimed by a lane that no longer runs, is signalled again. One
 * process does it at a time. Not a Temporal schedule, which would die with the Temporal that it heals.
 */
export async function runRelay(
  { db, client, lanes, downgrades, log, everySeconds = 1 }: RelayOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const again = (error: unknown) => log.warn({ err: error }, 'relay: will try again')
    await undoForgotten(db, acceptance.forgottenSeconds).catch(again)
    await relayOnce({ db, client, lanes, log }).catch(again)
    await healDowngrades({ db, downgrades, log }).catch(again)
    await sleep(everySeconds * 1000, undefined, { signal }).catch(() => {})
  }
}

/** One round; resolves to how many lanes were woken. */
export async function relayOnce({
  db,
  client,
  lanes,
  log,
}: Omit<RelayOptions, 'downgrades' | 'everySeconds'>): Promise<number> {
  const waiting = await db.transaction(async trx => {
    return (await isMine(trx, 'relay')) ? operations.waitingTargets(trx, queuedSeconds, runningSeconds) : []
  })
  let woken = 0
  for (const { target_id, owner_id, running } of waiting) {
    if (running && (await laneRuns(client, target_id))) continue
    await lanes.wake(target_id, owner_id)
    woken++
    log.info({ appId: target_id }, 'relay: lane woken')
  }
  return woken
}
