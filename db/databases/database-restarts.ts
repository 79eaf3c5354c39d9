import { databaseWarnings } from '../../policy/databases/database-warnings.ts'
import type { RestartPlan } from '../../policy/databases/restarts.ts'
import type { RecordedExit } from '../apps/apps.ts'
import type { Db } from '../database.ts'
import type { DatabaseRow } from './database-rows.ts'
import { warnOfCrash, warnOfDown } from './database-warnings.ts'
import type { HostDatabase } from './databases.ts'

/**
 * Records a crash of an engine, which the row still knows after its restart, and when it is started again; false when its row changed since
 * it was `seen`. Its owner is mailed when it stays down, at the end that decides it, and once a day when it has run out of memory or crashed
 * repeatedly, although it is started again. Call it in a transaction.
 */
export async function recordRestartPlan(
  trx: Db,
  seen: Pick<DatabaseRow, 'id' | 'name' | 'owner_id' | 'restarts'>,
  { crashes, restartAt }: RestartPlan,
  { code, oom, at }: RecordedExit,
): Promise<boolean> {
  const { id, restarts } = seen
  const times = trx.raw(
    `array(select time from unnest(array_append(crash_times, :at::timestamptz)) as time
      where time > :at::timestamptz - interval '1 day' order by time desc limit :max)`,
    { at, max: databaseWarnings.maxCrashTimes },
  )
  const [changed]: Pick<DatabaseRow, 'crash_times'>[] = await trx('databases')
    .where({ id, restarts, status: 'exited', desired_state: 'running' })
    .update({
      ...{ restarts: crashes, restart_at: restartAt },
      ...{ crash_code: code, crash_oom: oom, crash_at: at, crash_times: times },
    })
    .returning('crash_times')
  if (!changed) return false
  if (restartAt === null) await warnOfDown(trx, seen)
  else if (oom || changed.crash_times.length >= databaseWarnings.crashesInDay)
    await warnOfCrash(trx, seen, changed.crash_times.length)
  return true
}

/** Takes the restart that is due, in the transaction that queues it: no other round queues it again. False when there is none any more. */
export async function takeRestart(trx: Db, id: string): Promise<boolean> {
  const changed = await trx('databases')
    .where({ id, status: 'exited', desired_state: 'running' })
    .whereNotNull('restart_at')
    .update({ restart_at: null })
  return changed === 1
}

/**
 * Takes a database that is to run and does not, in the transaction that queues its start: it is shown as exited from now on, and one that
 * counted as running, as ended at `endedAt`. False when its row changed since it was `seen`, or it is to be stopped.
 */
export async function takeReturn(trx: Db, seen: HostDatabase, endedAt: Date): Promise<boolean> {
  const { id, status, container_id, started_at } = seen
  const end = status === 'running' && { exit_code: null, exit_oom: null, exit_at: endedAt }
  const changed = await trx('databases')
    .where({ id, status, container_id, started_at, desired_state: 'running' })
    .update({ status: 'exited', started_at: null, ...end })
  return changed === 1
}

/** Its engine runs well: the next crash is the first one again. */
export async function forgetCrashes(db: Db, id: string): Promise<void> {
  await db('databases').where({ id }).update({ restarts: 0 })
}
