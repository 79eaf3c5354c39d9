import { rowsAtOnce } from '../../policy/retention.ts'
import { changesRetainedMinutes } from '../../policy/rounds.ts'
import type { Db } from '../database.ts'

/** An application that was created, changed or deleted. */
interface ChangedApp {
  id: string
  /** Null where it has no address. */
  subdomain: string | null
}

export interface Changes {
  /** The reader knows everything up to this mark once it has acted on these changes. Opaque. */
  mark: string
  /** Null: all of them may have changed. */
  changed: ChangedApp[] | null
}

interface ChangeRow {
  /** Names the run of Postgres and the files of `apps` in which numbers are comparable; null before the first reader. */
  history: string | null
  is_foreign: boolean
  upto: string
  fits: boolean
  app_id: string | null
  subdomain: string | null
}

/**
 * The applications whose rows have changed since `mark`, of one host where `hostId` is given. A null mark stands for a reader that
 * knows nothing. A change may be reported more than once, and none is missed: the mark is the oldest transaction in progress, so that
 * one that commits late is read next time. A mark is valid for some minutes, and until Postgres restarts or crashes, or `apps` is
 * truncated or restored; then all may have changed.
 */
export async function changesSince(db: Db, mark: string | null, hostId: string | null = null): Promise<Changes> {
  const [history = '', number = '0'] = mark?.split(' ') ?? []
  const listed = `coalesce(s.history = :history and s.swept < cast(:number as bigint), false) as fits, c.app_id, c.subdomain
       from standing s
       left join app_changes c on s.history = :history and c.number >= cast(:number as bigint) ${hostId === null ? '' : 'and c.host_id = :hostId'}`
  const { rows }: { rows: ChangeRow[] } = await db.raw(
    `with standing as (
       select (select id from app_change_epochs) || '/' || extract(epoch from pg_postmaster_start_time()) || '/'
                || (select oid from pg_database where datname = current_database()) || '.' || pg_relation_filenode('apps') as history,
              (select swept from app_change_epochs) as swept,
              -- Written by another server, whose backup was restored: this one has not assigned such a number yet.
              coalesce(greatest((select swept from app_change_epochs), (select max(number) from app_changes))
                >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint, false) as is_foreign,
              pg_snapshot_xmin(pg_current_snapshot())::text as upto)
     select s.history, s.is_foreign, s.upto, ${mark === null ? 'false as fits, null as app_id from standing s' : listed}`,
    { history, number, ...(hostId !== null && { hostId }) },
  )
  const standing = rows[0]!
  if (standing.history === null || standing.is_foreign) {
    if (standing.is_foreign) await forgetForeign(db)
    await db('app_change_epochs').insert({ single: true }).onConflict('single').ignore()
    return changesSince(db, mark, hostId)
  }
  const changed = new Map<string, ChangedApp>()
  for (const { app_id: id, subdomain } of rows)
    if (id !== null) changed.set(`${id}/${subdomain}`, { id, subdomain: subdomain || null })
  return { mark: `${standing.history} ${standing.upto}`, changed: standing.fits ? [...changed.values()] : null }
}

/** Invalidates every mark. */
async function forgetForeign(db: Db): Promise<void> {
  await db.raw(
    `with foreign_changes as (
       delete from app_changes where number >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
     delete from app_change_epochs`,
  )
}

/** Deletes changes that every reader has read by now; resolves to their number. Changes that a long transaction makes readers repeat stay. */
export async function sweepAppChanges(db: Db): Promise<number> {
  const { rows } = await db.raw(
    `with gone as (
       delete from app_changes where (number, app_id, host_id, subdomain) in (
         select number, app_id, host_id, subdomain from app_changes
          where at < now() - make_interval(mins => :minutes) and number < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
          order by at limit :rows)
       returning number),
     swept as (
       update app_change_epochs set swept = greatest(swept, (select max(number) from gone)) where exists (select 1 from gone))
     select number from gone`,
    { minutes: changesRetainedMinutes, rows: rowsAtOnce },
  )
  return rows.length
}
