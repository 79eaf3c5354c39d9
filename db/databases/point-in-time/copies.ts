import { type Db, transaction } from '../../database.ts'
import * as segments from '../../objects/segments.ts'

/** One volume of a database. */
export interface CopiedVolume {
  databaseId: string
  generation: number
}

export interface CopiedFile extends CopiedVolume {
  timeline: number
  number: number
}

/** The state of the copies of one volume. */
export interface CopyState {
  generation: number
  /** Bytes in the object store that were ever recorded of it; Postgres gives it as text. */
  stored: string
  gap_at: Date | null
  closed_at: Date | null
  waiting: number
  copied_at: Date | null
  failure: string | null
  failed_at: Date | null
  backup_failure: string | null
  backup_failed_at: Date | null
}

const maxFailure = 300

const keyOf = ({ databaseId, generation }: CopiedVolume) => ({ database_id: databaseId, generation })

const fileKey = ({ timeline, number, ...volume }: CopiedFile) => ({ ...keyOf(volume), timeline, number })

async function put(db: Db, volume: CopiedVolume, state: Record<string, unknown>): Promise<void> {
  await db('database_copies')
    .insert({ ...keyOf(volume), ...state })
    .onConflict(['database_id', 'generation'])
    .merge(state)
}

/** Locks the state of a volume's copies: files, gaps and backups are recorded one after the other. */
export async function lockCopies(trx: Db, volume: CopiedVolume): Promise<CopyState> {
  await trx('database_copies').insert(keyOf(volume)).onConflict(['database_id', 'generation']).ignore()
  return trx('database_copies').where(keyOf(volume)).forUpdate().first()
}

/** Counts bytes that were stored of a volume, which the caller has locked. */
export async function countStored(trx: Db, volume: CopiedVolume, size: number): Promise<void> {
  await trx('database_copies').where(keyOf(volume)).increment('stored', size)
}

/** The states of all volumes of a database. */
export async function listCopyStates(db: Db, databaseId: string): Promise<CopyState[]> {
  return db('database_copies').where({ database_id: databaseId }).orderBy('generation')
}

/** Id of the segment with this WAL file; undefined when it is not stored. */
export async function findWalSegment(db: Db, file: CopiedFile): Promise<string | undefined> {
  return (await db('database_wal').where(fileKey(file)).first('segment_id'))?.segment_id
}

/** Number of the newest WAL file of a timeline that is stored; null = none. */
export async function newestWalNumber(
  db: Db,
  { timeline, ...volume }: Omit<CopiedFile, 'number'>,
): Promise<number | null> {
  const row = await db('database_wal')
    .where({ ...keyOf(volume), timeline })
    .max('number as number')
    .first()
  return row?.number == null ? null : Number(row.number)
}

export interface StoredWalFile extends CopiedFile {
  segmentId: string
  size: number
  sha256: string
  /** When its engine had finished it. */
  at: Date
}

/**
 * Records a WAL file that is in the object store. Backups that it follows go on with it; others of its timeline end, as a file between is
 * missing. False when the sweep took the segment. A file that is recorded already stays.
 */
export async function recordWalFile(db: Db, stored: StoredWalFile): Promise<boolean> {
  const { segmentId, size, sha256, at, ...file } = stored
  return transaction(db, async trx => {
    await lockCopies(trx, file)
    if (await findWalSegment(trx, file)) return true
    if (!(await segments.attachSegment(trx, segmentId, { size, sha256 }))) return false
    await trx('database_wal').insert({ ...fileKey(file), segment_id: segmentId, size, at })
    await countStored(trx, file, size)
    const { number, timeline } = file
    const ofTimeline = () => trx('database_backups').where({ ...keyOf(file), timeline, broken: false })
    await ofTimeline()
      .whereRaw('coalesce(last_file + 1, first_file) = ?', [number])
      .update({ last_file: number, to_at: trx.raw('greatest(to_at, from_at, ?::timestamptz)', [at]) })
    await ofTimeline().whereRaw('coalesce(last_file + 1, first_file) < ?', [number]).update({ broken: true })
    return true
  })
}

/** WAL files were left out: no backup of the volume goes on, and the host makes another. */
export async function recordGap(db: Db, volume: CopiedVolume): Promise<void> {
  await transaction(db, async trx => {
    await lockCopies(trx, volume)
    await trx('database_copies').where(keyOf(volume)).update({ gap_at: trx.fn.now() })
    await trx('database_backups')
      .where({ ...keyOf(volume), broken: false })
      .update({ broken: true })
  })
}

/** WAL files were left out after those that wait to be stored, with which backups still go on: nothing later can be restored. */
export const noteGap = (db: Db, volume: CopiedVolume): Promise<void> => put(db, volume, { gap_at: db.fn.now() })

/** Deletes what is stored of a volume whose data are made anew: a restore to a moment would mix the files of both. */
export async function forgetCopies(db: Db, volume: CopiedVolume): Promise<void> {
  await transaction(db, async trx => {
    await lockCopies(trx, volume)
    const backups: Stored[] = await trx('database_backups').where(keyOf(volume)).delete().returning('segment_id')
    const files: Stored[] = await trx('database_wal').where(keyOf(volume)).delete().returning('segment_id')
    await segments.releaseSegments(
      trx,
      [...backups, ...files].map(({ segment_id }) => segment_id),
    )
    await trx('database_copies').where(keyOf(volume)).delete()
  })
}

/** Retains the volume before a restore for another hour, and its disk reserved: it has WAL files that could not be stored. */
export async function retainWhileWaiting(db: Db, { databaseId, generation }: CopiedVolume): Promise<void> {
  await db.raw(
    `update databases set retired_until = now() + interval '1 h'
      where id = ? and retired_generation = ? and retired_until < now() + interval '1 h'`,
    [databaseId, generation],
  )
}

type Stored = { segment_id: string }

/** What the host found in the volume, and why it could not copy it. Nothing is written while nothing changes. */
export async function recordCopyState(
  db: Db,
  volume: CopiedVolume,
  { waiting, failure, copied }: { waiting: number; failure: string | null; copied: boolean },
): Promise<void> {
  const now = db.fn.now()
  const text = failure?.slice(0, maxFailure) ?? null
  const row = await db('database_copies').where(keyOf(volume)).first('waiting', 'failure')
  if (!copied && row?.waiting === waiting && row.failure === text) return
  if (!row && !copied && waiting === 0 && text === null) return
  await put(db, volume, {
    ...{ waiting, failure: text, failed_at: text === null ? null : now },
    ...(copied && { copied_at: now }),
  })
}

/** Why the last base backup failed; null = it did not. */
export async function recordBackupFailure(db: Db, volume: CopiedVolume, failure: string | null): Promise<void> {
  const at = failure === null ? null : db.fn.now()
  await put(db, volume, { backup_failure: failure?.slice(0, maxFailure) ?? null, backup_failed_at: at })
}

/** Its engine is about to run, or has ended cleanly: then its WAL files are all that there is. */
export async function recordClosed(db: Db, volume: CopiedVolume, closed: boolean): Promise<void> {
  await put(db, volume, { closed_at: closed ? db.fn.now() : null })
}
