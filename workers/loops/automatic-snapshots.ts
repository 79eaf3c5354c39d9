import type { Logger } from 'pino'
import { type Db, transaction, tryRoundLock } from '../../db/database.ts'
import { queueDatabaseSnapshot } from '../../db/databases/database-snapshots.ts'
import type { TargetType } from '../../db/operations/operation-kinds.ts'
import { ActRefused, cancelOperation } from '../../db/operations/operator-acts.ts'
import {
  type DueTarget,
  listDueForSnapshot,
  listStuckSnapshots,
  postponeSnapshots,
  recordSnapshotTry,
} from '../../db/snapshots/automatic-snapshots.ts'
import { queueSnapshotWarnings } from '../../db/snapshots/snapshot-warnings.ts'
import { queueSnapshot } from '../../db/snapshots/snapshots.ts'
import { loop } from '../../lib/async/loop.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { CodedError } from '../../policy/errors.ts'
import { automaticSnapshotSeconds } from '../../policy/rounds.ts'
import type { Lanes } from '../../workflows/client.ts'
import { subjectOf } from './waking.ts'

export interface AutomaticOptions {
  db: Db
  lanes: Lanes
  databaseLanes: Lanes
  plans: Plans
  log: Logger
  /** How often due applications and databases are looked up, in seconds. */
  lookSeconds?: number
  /** Time between two automatic snapshots of an application, or database, in seconds. */
  everySeconds?: number
  /** Delay after a failed one, in seconds. */
  retrySeconds?: number
}

/** The actor of automatic snapshots. */
const automaticActor = 'platform'

/** What differs between applications and databases. */
interface Kind {
  /** Rounds of this kind exclude each other, and so do its warnings. */
  round: string
  warnings: string
  queue(db: Db, target: DueTarget, plans: Plans): Promise<unknown>
}

const terms = { actor: automaticActor, origin: 'automatic' } as const

const kinds: Readonly<Record<TargetType, Kind>> = {
  app: {
    round: 'automatic-snapshots',
    warnings: 'app-snapshot-warnings',
    queue: (db, { id: appId, owner_id: ownerId }, plans) => queueSnapshot(db, { appId, ownerId, plans, ...terms }),
  },
  database: {
    round: 'automatic-database-snapshots',
    warnings: 'snapshot-warnings',
    queue: (db, { id: databaseId, owner_id: ownerId }, plans) =>
      queueDatabaseSnapshot(db, { databaseId, ownerId, plans, ...terms }),
  },
}

/**
 * Queues the daily snapshot of every application and database whose account has a paid plan, until the signal aborts: of each type
 * as many at a time as a host has slots, each of another account, in one process. Owners of what has had no good one for days are warned.
 */
export async function takeAutomaticSnapshots(options: AutomaticOptions, signal: AbortSignal): Promise<void> {
  const everyMs = (options.lookSeconds ?? 20) * 1000
  const onError = (error: unknown) => options.log.warn({ err: error }, 'automatic snapshots: will try again')
  const types = ['app', 'database'] as const
  const rounds = types.flatMap(type => [() => queueDue(options, type), () => warnOfMissingSnapshots(options, type)])
  await Promise.all(rounds.map(round => loop(round, { signal, everyMs, onError })))
}

/** One round; resolves to the ids of the applications, or databases, whose snapshot was queued. */
export async function queueDue(options: AutomaticOptions, type: TargetType = 'app'): Promise<string[]> {
  const { db, plans, log, everySeconds = automaticSnapshotSeconds, retrySeconds = 3600 } = options
  const kind = kinds[type]
  const lanes = type === 'app' ? options.lanes : options.databaseLanes
  const { due, stuck } = await transaction(db, async trx => {
    if (!(await tryRoundLock(trx, kind.round))) return { due: [], stuck: [] }
    const targets = await listDueForSnapshot(trx, { plans, everySeconds, retrySeconds }, type)
    const late = await listStuckSnapshots(trx, everySeconds, type)
    await postponeSnapshots(trx, targets.later, type)
    return { due: targets.due, stuck: late }
  })
  const queued: string[] = []
  const wake = (id: string, ownerId: string) =>
    // The relay wakes a lane that cannot be reached now.
    lanes
      .wake(id, ownerId)
      .catch(err => log.warn({ err, ...subjectOf({ type, id }) }, 'automatic snapshots: not woken'))
  for (const { operation_id: operationId, target_id: id, owner_id: ownerId } of stuck) {
    const given = await giveUp(db, operationId).catch(err =>
      log.warn({ err, ...subjectOf({ type, id }) }, 'automatic snapshots: not given up'),
    )
    if (given === 'requested') await wake(id, ownerId)
  }
  // Each in its own transaction: another process that interleaves sees the operation that is being created.
  for (const target of due) {
    const { id, owner_id: ownerId } = target
    try {
      // Before it is queued: if that fails, the others of its host must not wait for it.
      await recordSnapshotTry(db, type, id, retrySeconds)
      if (!(await transaction(db, trx => kind.queue(trx, target, plans)).catch(unlessBusy))) continue
    } catch (err) {
      log.warn({ err, ...subjectOf({ type, id }) }, 'automatic snapshots: not queued')
      continue
    }
    queued.push(id)
    await wake(id, ownerId)
  }
  return queued
}

/** Warns owners of applications, or databases, that had no good snapshot for days; resolves to the ids of these. */
export async function warnOfMissingSnapshots(
  { db, plans, log }: AutomaticOptions,
  type: TargetType = 'app',
): Promise<string[]> {
  const warned = await transaction(db, async trx =>
    (await tryRoundLock(trx, kinds[type].warnings)) ? queueSnapshotWarnings(trx, plans, type) : [],
  )
  for (const id of warned)
    log.error(subjectOf({ type, id }), 'automatic snapshots: no good one for days; the owner is warned')
  return warned
}

/** Ends a snapshot that did not finish within its day, as its host is down or its application or database is being restored: the next one takes its slot. */
async function giveUp(db: Db, operationId: string): Promise<'ended' | 'requested' | null> {
  return transaction(db, trx => cancelOperation(trx, { operationId, actor: automaticActor })).catch(error => {
    if (error instanceof ActRefused) return null
    throw error
  })
}

/** It was deleted, restored or copied by hand in the meantime: it becomes due again. */
function unlessBusy(error: unknown): null {
  if (error instanceof CodedError) return null
  throw error
}
