import { rowsAtOnce } from '../policy/retention.ts'
import { changesRetainedMinutes } from '../policy/rounds.ts'
import type { Db } from './database.ts'

/** A table whose changes are noted, and where: names of tables and columns. */
export interface NotedTable {
  rows: string
  changes: string
  epochs: string
  /** Columns of `changes` that are part of what a change says, the id first. */
  id: string
  /** Column with the name of the row, or a constant. */
  name: string
  /** Columns that identify a change. */
  key: string
}

/** A row that was created, changed or deleted. */
interface ChangedRow {
  id: string
  /** Empty where it has none. */
  name: string
}

interface RowChanges {
  /** The reader knows everything up to this mark once it has acted on these changes. Opaque. */
  mark: string
  /** Null: all of them may have changed. */
  changed: ChangedRow[] | null
}

interface ChangeRow {
  /** Names the run of Postgres and the files of the table in which numbers are comparable; null before the first reader. */
  history: string | null
  is_foreign: boolean
  upto: string
  fits: boolean
  id: string | null
  name: string | null
}

/**
 * The rows that have changed since `mark`, of one host where `hostId` is given. A null mark stands for a reader that knows nothing. A
 * change may be reported more than once, and none is missed: the mark is the oldest transaction in progress, so that one that commits
 * late is read next time. A mark is valid for some minutes, and until Postgres restarts or crashes, or the table is truncated or
 * restored; then all may have changed.
 */
export async function readChanges(
  db: Db,
  table: NotedTable,
  mark: string | null,
  hostId: string | null,
): Promise<RowChanges> {
  const { rows: tableName, changes, epochs, id, name } = table
  const [history = '', number = '0'] = mark?.split(' ') ?? []
  const listed = `coalesce(s.history = :history and s.swept < cast(:number as bigint), false) as fits, c.${id} as id, ${name} as name
       from standing s
       left join ${changes} c on s.history = :history and c.number >= cast(:number as bigint) ${hostId === null ? '' : 'and c.host_id = :hostId'}`
  const { rows }: { rows: ChangeRow[] } = await db.raw(
    `with standing as (
       select (select id from ${epochs}) || '/' || extract(epoch from pg_postmaster_start_time()) || '/'
                || (select oid from pg_database where datname = current_database()) || '.' || pg_relation_filenode('${tableName}') as history,
              (select swept from ${epochs}) as swept,
              -- Written by another server, whose backup was restored: this one has not assigned such a number yet.
              coalesce(greatest((select swept from ${epochs}), (select max(number) from ${changes}))
                >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint, false) as is_foreign,
              pg_snapshot_xmin(pg_current_snapshot())::text as upto)
     select s.history, s.is_foreign, s.upto, ${mark === null ? 'false as fits, null as id from standing s' : listed}`,
    { history, number, ...(hostId !== null && { hostId }) },
  )
  const standing = rows[0]!
  if (standing.history === null || standing.is_foreign) {
    if (standing.is_foreign) await forgetForeign(db, table)
    await db(epochs).insert({ single: true }).onConflict('single').ignore()
    return readChanges(db, table, mark, hostId)
  }
  const changed = new Map<string, ChangedRow>()
  for (const row of rows)
    if (row.id !== null) changed.set(`${row.id}/${row.name}`, { id: row.id, name: row.name ?? '' })
  return { mark: `${standing.history} ${standing.upto}`, changed: standing.fits ? [...changed.values()] : null }
}

/** Invalidates every mark. */
async function forgetForeign(db: Db, { changes, epochs }: NotedTable): Promise<void> {
  await db.raw(
    `with foreign_changes as (
       delete from ${changes} where number >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
     delete from ${epochs}`,
  )
}

/** Deletes changes that every reader has read by now; resolves to their number. Changes that a long transaction makes readers repeat stay. */
export async function sweepChanges(db: Db, { changes, epochs, key }: NotedTable): Promise<number> {
  const { rows } = await db.raw(
    `with gone as (
       delete from ${changes} where (${key}) in (
         select ${key} from ${changes}
          where at < now() - make_interval(mins => :minutes) and number < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
          order by at limit :rows)
       returning number),
     swept as (
       update ${epochs} set swept = greatest(swept, (select max(number) from gone)) where exists (select 1 from gone))
     select number from gone`,
    { minutes: changesRetainedMinutes, rows: rowsAtOnce },
  )
  return rows.length
}
