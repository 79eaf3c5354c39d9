import type { RestorableBackup, RestorableRange, Serving } from '../../../policy/databases/point-in-time.ts'
import { restorableRanges } from '../../../policy/databases/point-in-time.ts'
import { type Db, transaction } from '../../database.ts'
import { findHost } from '../../hosts/hosts.ts'
import * as segments from '../../objects/segments.ts'
import type { DatabaseRow } from '../database-rows.ts'
import { type CopiedVolume, type CopyState, countStored, listCopyStates, lockCopies } from './copies.ts'

export interface BackupRow {
  id: string
  database_id: string
  generation: number
  timeline: number
  first_file: number
  last_file: number | null
  segment_id: string
  size: number
  from_at: Date
  to_at: Date | null
  broken: boolean
  created_at: Date
}

export interface StoredBackup extends CopiedVolume {
  id: string
  timeline: number
  firstFile: number
  segmentId: string
  size: number
  sha256: string
  /** When it began, by the clock of this database: what was left out since is missing from it. */
  beganAt: Date
  /** When its engine had finished it, by the engine's clock. */
  fromAt: Date
}

/** Records a base backup that is in the object store. False when the sweep took the segment. */
export async function recordBackup(db: Db, stored: StoredBackup): Promise<boolean> {
  const { id, databaseId, generation, timeline, firstFile, segmentId, size, sha256, beganAt, fromAt } = stored
  return transaction(db, async trx => {
    const { gap_at: gapAt, stored: storedBefore } = await lockCopies(trx, stored)
    if (!(await segments.attachSegment(trx, segmentId, { size, sha256 }))) return false
    const [last] = await trx
      .select(trx.raw('max(number)::float8 as number'), trx.raw('max(at) as at'), trx.raw('count(*)::float8 as count'))
      .from(
        trx('database_wal')
          .where({ database_id: databaseId, generation, timeline })
          .where('number', '>=', firstFile)
          .select(
            'number',
            'at',
            trx.raw('row_number() over (order by number) - 1 + ?::bigint as expected', [firstFile]),
          )
          .as('files'),
      )
      .whereRaw('number = expected')
    await trx('database_backups').insert({
      ...{ id, database_id: databaseId, generation, timeline, first_file: firstFile, last_file: last.number },
      ...{ segment_id: segmentId, size, stored_before: storedBefore },
      ...{ from_at: fromAt, broken: gapAt !== null && gapAt >= beganAt },
      to_at: last.at && new Date(Math.max(last.at.getTime(), fromAt.getTime())),
    })
    await countStored(trx, stored, size)
    return true
  })
}

const columns = (db: Db) => [
  ...['id', 'database_id', 'generation', 'segment_id', 'from_at', 'to_at', 'broken', 'created_at'],
  ...['timeline', 'first_file', 'last_file', 'size'].map(name => db.raw('??::float8 as ??', [name, name])),
]

/** The base backups of a database, oldest first. */
async function listBackups(db: Db, databaseId: string): Promise<BackupRow[]> {
  return db('database_backups').where({ database_id: databaseId }).orderBy('from_at').select(columns(db))
}

/** From when until when each volume of a database served, oldest first. */
export async function listServings(
  db: Db,
  { id, generation, created_at }: Pick<DatabaseRow, 'id' | 'generation' | 'created_at'>,
): Promise<Serving[]> {
  const switches: { before: number; after: number; at: Date }[] = await db('database_switches')
    .where({ database_id: id })
    .orderBy('id')
  const first = switches[0]?.before ?? generation
  const starts = [{ generation: first, since: created_at }]
  for (const { after, at } of switches) starts.push({ generation: after, since: at })
  return starts.map((start, index) => ({ ...start, until: starts[index + 1]?.since ?? null }))
}

type Restored = Pick<DatabaseRow, 'id' | 'generation' | 'created_at' | 'host_id'>

/**
 * What decides which moments of a database can be restored, and the rows that it is from. `only` what is stored counts when its host
 * cannot be asked for the rest.
 */
export async function readRestorable(
  db: Db,
  database: Restored,
  only: 'stored' | null = null,
): Promise<{ rows: BackupRow[]; states: CopyState[]; backups: RestorableBackup[]; servings: Serving[] }> {
  // One after the other: it may be a transaction, with one connection.
  const rows = await listBackups(db, database.id)
  const servings = await listServings(db, database)
  const states = await listCopyStates(db, database.id)
  const stateOf = new Map(states.map(state => [state.generation, state]))
  const backups = rows.map(({ id, generation, from_at: from, to_at, broken, created_at }) => {
    const { closed_at: closed = null, gap_at: gap = null } = stateOf.get(generation) ?? {}
    const goesOn = !broken && !(gap && gap > created_at)
    // Of an engine that serves, the rest is fetched when a restore needs it.
    const isAtHand = only !== 'stored' && (generation === database.generation || closed !== null)
    return { id, generation, from, to: to_at ?? from, current: goesOn && isAtHand }
  })
  return { rows, states, backups, servings }
}

/** As `readRestorable`, for callers who may ask while the host of the database is lost or silent. */
export async function readRestorableNow(db: Db, database: Restored): ReturnType<typeof readRestorable> {
  const host = await findHost(db, database.host_id)
  return readRestorable(db, database, host?.reachable ? null : 'stored')
}

/** The times that a database can be restored to, oldest first; empty while there is no base backup. */
export async function readRestorableRanges(db: Db, database: Restored): Promise<RestorableRange[]> {
  const { backups, servings } = await readRestorableNow(db, database)
  return restorableRanges(backups, servings, new Date())
}
