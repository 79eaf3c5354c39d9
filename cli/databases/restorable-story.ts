import type { Db } from '../../db/database.ts'
import type { DatabaseRow } from '../../db/databases/databases.ts'
import { readRestorableNow } from '../../db/databases/point-in-time/backups.ts'
import type { CopyState } from '../../db/databases/point-in-time/copies.ts'
import { type RestorableRange, restorableRanges } from '../../policy/databases/point-in-time.ts'
import { clock, since } from '../ops/ops-words.ts'

/** What a Postgres database can be restored to, and why its host does not get on with it. */
export interface RestorableStory {
  /** Oldest first. */
  ranges: RestorableRange[]
  backups: number
  lastBackupAt: Date | null
  /** Of the volume that serves; null = its host has recorded nothing yet. */
  state: CopyState | null
}

/** Null for engines that are restored from snapshots only. */
export async function readRestorableStory(db: Db, database: DatabaseRow): Promise<RestorableStory | null> {
  if (database.engine !== 'postgres') return null
  const { rows, states, backups, servings } = await readRestorableNow(db, database)
  const state = states.find(({ generation }) => generation === database.generation) ?? null
  const ranges = restorableRanges(backups, servings, new Date())
  return { ranges, backups: rows.length, lastBackupAt: rows.at(-1)?.created_at ?? null, state }
}

/** Lines of `berth databases explain`, by name. */
export function restorableFacts(story: RestorableStory | null, now: Date): [string, string | null][] {
  if (!story) return []
  const { ranges, backups, lastBackupAt, state } = story
  const times = ranges.map(({ from, to }) => `${clock(from)} to ${to >= now ? 'now' : clock(to)}`)
  const last = lastBackupAt ? `last ${clock(lastBackupAt)}, ${since(lastBackupAt, now)}` : 'none yet'
  return [
    ['restorable', times.length > 0 ? times.join(', and ') : 'NOT YET: there is no base backup'],
    ['base backups', `${backups}, ${last}${failed(state?.backup_failure, state?.backup_failed_at)}`],
    ['WAL files', state ? `${state.waiting} waiting${failed(state.failure, state.failed_at)}` : null],
    [
      'gap',
      state?.gap_at ? `WAL files are missing, last ${clock(state.gap_at)}: the archive was full or damaged` : null,
    ],
  ]
}

const failed = (reason: string | null | undefined, at: Date | null | undefined): string =>
  reason && at ? `; FAILED ${clock(at)}: ${reason}` : ''

/** The same for scripts; null for other engines. */
export const restorableView = (story: RestorableStory | null) =>
  story && {
    ranges: story.ranges,
    base_backups: story.backups,
    last_backup_at: story.lastBackupAt,
    waiting_files: story.state?.waiting ?? 0,
    gap_at: story.state?.gap_at ?? null,
    failure: story.state?.failure ?? null,
    backup_failure: story.state?.backup_failure ?? null,
  }
