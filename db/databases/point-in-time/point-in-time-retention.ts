import { pointInTimeRules } from '../../../policy/databases/point-in-time.ts'
import type { Db } from '../../database.ts'
import { releaseSegments } from '../../objects/segments.ts'

const batchSize = 500

/**
 * Deletes a batch of base backups, WAL files and what belongs to them that no restore within this many days needs, and those of deleted
 * databases; resolves to their number. With 0 days nothing is retained. A database keeps the newest backup that is older, with which
 * its oldest moment is restored, unless it stores too much. Backups that a restore reads stay.
 */
export async function sweepPointInTime(db: Db, days: number): Promise<number> {
  const backups = await db.raw(deletion('database_backups', unneededBackups), {
    ...{ days, batchSize, storedPerMemory: pointInTimeRules.storedPerMemory },
  })
  await releaseSegments(db, segmentsOf(backups))
  const files = await db.raw(deletion('database_wal', unneededFiles), { batchSize })
  await releaseSegments(db, segmentsOf(files))
  await db.raw(
    `delete from database_copies c where not exists (select from databases d where d.id = c.database_id)
        or (not ${isKept} and not exists (select from database_backups b
              where b.database_id = c.database_id and b.generation = c.generation))`,
  )
  await db.raw(
    `delete from database_switches served where served.at < now() - make_interval(days => greatest(?::integer, 1) + 1)
        or not exists (select from databases d where d.id = served.database_id)`,
    [days],
  )
  return backups.rows.length + files.rows.length
}

const segmentsOf = ({ rows }: { rows: { segment_id: string }[] }) => rows.map(row => row.segment_id)

const deletion = (table: string, unneeded: string): string =>
  `delete from ${table} where ctid in (${unneeded} limit :batchSize for update skip locked) returning segment_id`

const isKept = `exists (select from databases d where d.id = c.database_id
                           and (d.generation = c.generation or d.retired_generation = c.generation))`

const isRead = `exists (select from operations o where o.target_type = 'database' and o.target_id = b.database_id
                           and o.kind = 'restore' and o.state in ('accepting', 'queued', 'running'))`

/**
 * What is stored from a backup on may take a multiple of the database's memory, whatever it writes.
 *
 * A volume that no longer serves is needed until the last moment at which it served is too old. One that a restore prepares has not
 * served yet: its backup is younger than a day.
 */
const unneededBackups = `
  select b.ctid from database_backups b
   where not exists (select from databases d where d.id = b.database_id)
      or (not ${isRead} and (
        :days::integer = 0
        or exists (select from database_backups newer
                    where newer.database_id = b.database_id and newer.generation = b.generation and newer.from_at > b.from_at
                      and newer.from_at <= now() - make_interval(days => :days::integer))
        or ((select c.stored - b.stored_before > d.ram_mb::bigint * 1048576 * :storedPerMemory::integer
               from database_copies c join databases d on d.id = c.database_id
              where c.database_id = b.database_id and c.generation = b.generation)
            and exists (select from database_backups newer
                         where newer.database_id = b.database_id and newer.generation = b.generation and newer.from_at > b.from_at))
        or (b.created_at < now() - make_interval(days => 1) 
            and not exists (select from databases d where d.id = b.database_id and d.generation = b.generation)
            and coalesce((select max(s.at) from database_switches s where s.database_id = b.database_id and s.before = b.generation),
                         '-infinity') < now() - make_interval(days => :days::integer))))`

const unneededFiles = `
  select w.ctid from database_wal w
   where not exists (select from database_backups b
                      where b.database_id = w.database_id and b.generation = w.generation and b.timeline = w.timeline
                        and b.first_file <= w.number)
     and (w.at < now() - make_interval(days => 1) or not exists (select from databases d where d.id = w.database_id)
          or exists (select from database_backups b
                      where b.database_id = w.database_id and b.generation = w.generation and b.first_file > w.number))`
