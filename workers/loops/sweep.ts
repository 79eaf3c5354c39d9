import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import { chores, tidyRows } from '../../db/housekeeping.ts'
import { advanceEpoch } from '../../db/installation.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Retention } from '../../policy/retention.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { resealOnce } from './reseal.ts'

export interface SweepOptions {
  db: Db
  log: Logger
  keys: SealKeys
  retention: Retention
  everySeconds?: number
}

/** Removes rows that are over, advances the epoch of the database, and reseals values of old keys, until the signal aborts. */
export async function runSweep(options: SweepOptions, signal: AbortSignal): Promise<void> {
  const { db, log, retention, everySeconds = roundSeconds.sweep } = options
  const all = chores(retention)
  const round = async () => {
    await advanceEpoch(db).catch(error => log.warn({ err: error }, 'could not advance the epoch; will retry'))
    await tidyRows(db, all, (chore, error) => log.warn({ err: error, chore }, 'sweep: will try again'))
    await resealOnce(options, signal)
  }
  const onError = (error: unknown) => log.warn({ err: error }, 'reseal: will try again')
  await loop(round, { signal, everyMs: everySeconds * 1000, onError })
}
