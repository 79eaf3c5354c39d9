import { MiB } from '../../lib/bytes.ts'
import { databaseWarnings, type UsedMemory } from '../../policy/databases/database-warnings.ts'
import { diskWarningLevel } from '../../policy/databases/disk-levels.ts'
import { maxCrashes } from '../../policy/databases/restarts.ts'
import { type NewMail, queueMail } from '../accounts/mails.ts'
import { type Db, transaction } from '../database.ts'
import type { DatabaseRow } from './database-rows.ts'

type Warned = Pick<DatabaseRow, 'id' | 'name' | 'owner_id'>
type Warning =
  | Pick<NewMail<'database-memory'>, 'template' | 'fields'>
  | Pick<NewMail<'database-disk'>, 'template' | 'fields'>
  | Pick<NewMail<'database-down'>, 'template' | 'fields'>
  | Pick<NewMail<'database-crashed'>, 'template' | 'fields'>

/** Queues a warning; false when its occasion was mailed within the last hours. */
function warn(
  trx: Db,
  { owner_id: userId }: Warned,
  warning: Warning,
  occasion: string,
  onceInHours: number = databaseWarnings.onceInHours,
): Promise<boolean> {
  return queueMail(trx, { userId, ...warning, once: occasion, onceInHours })
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

/** Warns the owner of an engine that has crashed and is started again, once a day; `ends`: how often it has crashed within a day. */
export function warnOfCrash(trx: Db, { id, name, owner_id }: Warned, ends: number): Promise<boolean> {
  const warning = { template: 'database-crashed', fields: { database: name, ends } } as const
  return warn(trx, { id, name, owner_id }, warning, `database-crashed/${id}`, databaseWarnings.crashOnceInHours)
}
