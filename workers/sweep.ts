import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ObjectStore } from '../activities/object-store.ts'
import type { Db } from '../db/database.ts'
import * as housekeeping from '../db/housekeeping.ts'
import * as segments from '../db/segments.ts'
import type { SealKeys } from '../policy/seal.ts'
import { resealOnce } from './reseal.ts'

export interface SweepOptions {
  db: Db
  store: ObjectStore
  log: Logger
  everySeconds?: number
  /** An upload may take this long until its body counts as forgotten, in seconds. */
  drawnSeconds?: number
  unreferencedSeconds?: number
}

/** Removes what nobody refers to any more, and renews what an old key has sealed, until the signal aborts. */
export async function runSweep(options: SweepOptions & { keys: SealKeys }, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sweepOnce(options).catch(error => options.log.warn({ err: error }, 'sweep: will try again'))
    await resealOnce(options, signal).catch(error => options.log.warn({ err: error }, 'reseal: will try again'))
    await sleep((options.everySeconds ?? 60) * 1000, undefined, { signal }).catch(() => {})
  }
}

/** One round, by one process at a time; resolves to the number of bodies removed. */
export async function sweepOnce({
  db,
  store,
  log,
  drawnSeconds = 3600,
  unreferencedSeconds = 60,
}: SweepOptions): Promise<number> {
  const mine = await housekeeping.tidyRows(db)
  if (!mine) return 0
  const ids = await segments.sweepable(db, drawnSeconds, unreferencedSeconds)
  let removed = 0
  for (const id of ids) {
    if (!(await segments.condemn(db, id))) continue
    await store.delete(id)
    await segments.forget(db, id)
    removed++
  }
  if (removed) log.info({ removed }, 'sweep: bodies without reference removed')
  return removed
}
