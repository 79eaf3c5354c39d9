import { MiB } from '../../lib/bytes.ts'
import { type Plans, paidPlans } from '../../policy/accounts/plans.ts'
import { databaseWarnings, type UsedMemory } from '../../policy/databases/database-warnings.ts'
import { diskWarningLevel } from '../../policy/databases/disk-levels.ts'
import { maxCrashes } from '../../policy/databases/restarts.ts'
import { automaticSnapshotRules, snapshotLooks } from '../../policy/rounds.ts'
import { type NewMail, queueMail } from '../accounts/mails.ts'
import { type Db, transaction } from '../database.ts'
import { hasSnapshots } from '../snapshots/automatic-snapshots.ts'
import type { DatabaseRow } from './database-rows.ts'

type Warned = Pick<DatabaseRow, 'id' | 'name' | 'owner_id'>
type Warning =
  | Pick<NewMail<'database-memory'>, 'template' | 'fields'>
  | Pick<NewMail<'database-disk'>, 'template' | 'fields'>
  | Pick<NewMail<'database-down'>, 'template' | 'fields'>

/** Max databases in one round. */
const maxRows = 100

/** Queues a warning; false when its occasion was mailed within the last hour. */
function warn(trx: Db, { owner_id: userId }: Warned, warning: Warning, occasion: string): Promise<boolean> {
  return queueMail(trx, { userId, ...warning, once: occasion, onceInHours: databaseWarnings.onceInHours })
}

const figures = (usedBytes: number, limitBytes: number) => ({
  usedMb: Math.round(usedBytes / MiB),
  limitMb: Math.round(limitBytes / MiB),
  percent: Math.min(100, Math.floor((usedBytes / limitBytes) * 100)),
})

/** Warns the owner that a database stays near the limit of its memory, once until `endMemoryWarning`; false when it was warned already. */
export async function warnOfMemory(db: Db, database: Warned, { usedBytes, limitBytes }: UsedMemory): Promise<boolean> {
  const { id, name } = database
  return transaction(db, async trx => {
    const row = await trx('databases').where({ id }).forNoKeyUpdate().first('memory_warned_at')
    if (!row || row.memory_warned_at !== null) return false
    const fields = { database: name, ...figures(usedBytes, limitBytes) }
    if (!(await warn(trx, database, { template: 'database-memory', fields }, `database-memory/${id}`))) return false
    await trx('databases').where({ id }).update({ memory_warned_at: trx.fn.now() })
    return true
  })
}

/** Records that a database is no longer near the limit of its memory: the next time is another occasion. */
export async function endMemoryWarning(db: Db, id: string): Promise<void> {
  await db('databases').where({ id }).whereNotNull('memory_warned_at').update({ memory_warned_at: null })
}

/**
 * Records how full the disk of a database is, and warns its owner of each level once until the use is well below it; true when it warned.
 * Call it only when `diskWarningLevel` differs from `disk_warned` of the row: it locks that.
 */
export async function recordDiskUse(
  db: Db,
  database: Warned,
  { usedBytes, totalBytes }: { usedBytes: number; totalBytes: number },
): Promise<boolean> {
  const { id, name } = database
  return transaction(db, async trx => {
    const row = await trx('databases').where({ id }).forNoKeyUpdate().first('disk_warned')
    if (!row) return false
    const level = diskWarningLevel(usedBytes, totalBytes, row.disk_warned)
    if (level === row.disk_warned) return false
    const fields = { database: name, ...figures(usedBytes, totalBytes) }
    const isWorse = level > row.disk_warned
    const warning = { template: 'database-disk', fields } as const
    if (isWorse && !(await warn(trx, database, warning, `database-disk/${level}/${id}`))) return false
    await trx('databases').where({ id }).update({ disk_warned: level })
    return isWorse
  })
}

/** Warns the owner that an engine stays down, in the transaction that records its last end; once an hour, also if it was started in between. */
export function warnOfDown(trx: Db, database: Warned): Promise<boolean> {
  const fields = { database: database.name, ends: maxCrashes }
  return warn(trx, database, { template: 'database-down', fields }, `database-down/${database.id}`)
}

interface UnsavedDatabase extends Warned {
  /** Whether it is to have snapshots. */
  expected: boolean
  days: number
}

/**
 * Warns owners of databases that had no good snapshot for days, once until there is one; resolves to the ids of these databases. Those that
 * have no snapshots, as their account has no plan, are looked at again later.
 */
export async function queueSnapshotWarnings(trx: Db, plans: Plans): Promise<string[]> {
  const { rows }: { rows: UnsavedDatabase[] } = await trx.raw(
    `select d.id, d.name, d.owner_id,
            d.provisioned_at is not null and d.lost_with is null and d.desired_state <> 'deleted' and ${hasSnapshots('database')} as expected,
            greatest(:warnDays, floor(extract(epoch from now() - coalesce(
              (select s.created_at from snapshots s
                where s.target_type = 'database' and s.target_id = d.id and s.state = 'good' order by s.created_at desc limit 1),
              d.provisioned_at)) / 86400))::integer as days
       from databases d join users u on u.id = d.owner_id
      where d.snapshot_warn_at <= now()
      order by d.snapshot_warn_at limit :maxRows for no key update of d skip locked`,
    { paid: paidPlans(plans), ...automaticSnapshotRules, maxRows },
  )
  const warned: string[] = []
  for (const { id, name, owner_id: userId, expected, days } of rows) {
    const again = { secs: expected ? null : snapshotLooks.withoutPlanSeconds, id }
    await trx.raw('update databases set snapshot_warn_at = now() + make_interval(secs => :secs) where id = :id', again)
    if (!expected) continue
    await queueMail(trx, { userId, template: 'database-snapshots-failing', fields: { database: name, days } })
    warned.push(id)
  }
  return warned
}

/** Records that a database has a good snapshot: its owner is warned when there is no other one for days. */
export async function postponeSnapshotWarning(trx: Db, id: string): Promise<void> {
  await trx.raw('update databases set snapshot_warn_at = now() + make_interval(days => ?) where id = ?', [
    automaticSnapshotRules.warnDays,
    id,
  ])
}
