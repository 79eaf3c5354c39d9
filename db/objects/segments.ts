import { newId } from '../../policy/ids.ts'
import { heldAllocationSeconds, type UpkeepTimes, upkeepTimes } from '../../policy/objects/blob-upkeep.ts'
import type { Db } from '../database.ts'

/** Allocates an id for bytes that are about to be stored: the row exists before the bytes, so none can be forgotten. */
export async function allocateSegment(db: Db): Promise<string> {
  const id = newId()
  await db('segments').insert({ id })
  return id
}

/** When an id was allocated that the sweep takes `heldAllocationSeconds` from now. */
const heldSince = (db: Db) =>
  db.raw('now() - make_interval(secs => ?)', [upkeepTimes.drawnSeconds - heldAllocationSeconds])

/** As `allocateSegment`, for a process that holds the id by `holdAllocation` until it is recorded. */
export async function allocateHeldSegment(db: Db): Promise<string> {
  const id = newId()
  await db('segments').insert({ id, drawn_at: heldSince(db) })
  return id
}

/** The process that has allocated this id lives: the sweep takes it 2 hours after the last call. */
export async function holdAllocation(db: Db, id: string): Promise<void> {
  await db('segments')
    .where({ id, state: 'drawn' })
    .update({ drawn_at: heldSince(db) })
}

/** Facts about the bytes of a segment; hashes in hex, size in bytes. */
export interface BodyFacts {
  size: number
  sha256: string
  md5?: string
  crc32?: number
}

/**
 * Records the facts of stored bytes, and takes a reference. False when the sweep took the id meanwhile. `partOnly`: the segment becomes a part
 * of an open upload, and it is not read before it is that of an object: Postgres ends that with its next reference (migration 081).
 */
export async function attachSegment(db: Db, id: string, body: BodyFacts, { partOnly = false } = {}): Promise<boolean> {
  const { size, sha256, md5 = null, crc32 = null } = body
  const changed = await db('segments')
    .where({ id })
    .whereIn('state', ['drawn', 'stored'])
    .update({
      ...{ state: 'stored', refs: db.raw('refs + 1'), size, sha256, md5, crc32, zero_since: null },
      part_only: partOnly,
    })
  return changed === 1
}

/** Takes one more reference to a segment that has one; false when it has none any more. */
export async function shareSegment(db: Db, id: string): Promise<boolean> {
  const changed = await db('segments')
    .where({ id, state: 'stored' })
    .where('refs', '>', 0)
    .update({ refs: db.raw('refs + 1') })
  return changed === 1
}

/** The bytes are still being stored: restarts the time after which the sweep takes the id. */
export async function renewAllocation(db: Db, id: string): Promise<void> {
  await db('segments').where({ id, state: 'drawn' }).update({ drawn_at: db.fn.now() })
}

/** Drops one reference; the sweep takes a segment without references. */
export async function releaseSegment(db: Db, id: string): Promise<void> {
  await db('segments')
    .where({ id })
    .where('refs', '>', 0)
    .update({ refs: db.raw('refs - 1'), zero_since: db.raw('case when refs = 1 then now() else null end') })
}

/** As `releaseSegment`, for one that may be read now: the sweep leaves it for the duration of a download. */
export async function releaseReadSegment(db: Db, id: string): Promise<void> {
  await releaseSegment(db, id)
  const { downloadSeconds, unreferencedSeconds } = upkeepTimes
  await db('segments')
    .where({ id })
    .update({ zero_since: db.raw('zero_since + make_interval(secs => ?)', [downloadSeconds - unreferencedSeconds]) })
}

/** Drops one reference for each occurrence of an id. */
export async function releaseSegments(db: Db, ids: readonly string[]): Promise<void> {
  await db.raw(
    `with counted as (select id, count(*)::integer as n from unnest(?::text[]) as i (id) group by id),
          held as materialized (select s.id from segments s where s.id in (select id from counted) order by s.id for no key update)
     update segments s set refs = s.refs - c.n, zero_since = case when s.refs = c.n then now() else null end
       from counted c join held h on h.id = c.id where s.id = c.id and s.refs >= c.n`,
    [[...ids]],
  )
}

const dying = (db: Db) => ({ state: 'dying', zero_since: db.raw('coalesce(zero_since, now())') })

/** Marks a segment without references for deletion; the caller deletes the bytes and then calls `deleteSegmentRow`. False when it is in use. */
export async function markSegmentForDeletion(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id, refs: 0 }).update(dying(db))) === 1
}

/**
 * As `markSegmentForDeletion`, if the sweep may still take the segment: one that was attached and released since it was listed may have readers, and
 * its time starts over.
 */
export async function markOverdueSegmentForDeletion(db: Db, id: string, times: SweepTimes): Promise<boolean> {
  const isOverdue = overdue(times).map(({ sql }) => `(${sql})`)
  const values = overdue(times).flatMap(({ seconds }) => seconds)
  return (
    (await db('segments')
      .where({ id, refs: 0 })
      .whereRaw(`(${isOverdue.join(' or ')})`, values)
      .update(dying(db))) === 1
  )
}

/** The store could not delete its bytes: the sweep tries again after `retrySeconds`, and takes others before. */
export async function postponeDeletion(db: Db, id: string, retrySeconds: number): Promise<void> {
  await db('segments')
    .where({ id, state: 'dying' })
    .update({ zero_since: db.raw('now() + make_interval(secs => ?)', [retrySeconds]) })
}

/** False for an id whose row the sweep has deleted. */
export async function isSegmentKnown(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id }).first('id')) !== undefined
}

/** Deletes the row of a segment whose bytes are deleted; false when another process did. */
export async function deleteSegmentRow(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id, state: 'dying' }).delete()) === 1
}

/** A segment that may be swept. */
export interface SweepableSegment {
  id: string
  state: 'drawn' | 'stored' | 'dying'
  size: number | null
}

/** How long the sweep waits before it takes a segment without references, in seconds. */
export type SweepTimes = Omit<UpkeepTimes, 'idleSeconds'>

/** Max segments of a kind in one round of the sweep. */
const maxOfKind = 250

/**
 * Segments that never got a reference in time, that lost their last one long enough ago, or that are half swept; of each kind those first
 * that are due the longest. Segments of objects, which are those with a crc32 that were more than parts of an upload, are left for the
 * duration of a download.
 */
export async function listSweepableSegments(db: Db, times: SweepTimes): Promise<SweepableSegment[]> {
  const kinds = overdue(times).map(
    ({ sql, since }) =>
      `(select id, state, size::float8 as size from segments where refs = 0 and ${sql} order by ${since} limit ${maxOfKind})`,
  )
  const { rows } = await db.raw(
    kinds.join(' union all '),
    overdue(times).flatMap(({ seconds }) => seconds),
  )
  return rows
}

/** The kinds of segments that are due, each by an index. */
const overdue = ({ drawnSeconds, unreferencedSeconds, downloadSeconds }: SweepTimes) => [
  { sql: `state = 'dying' and (zero_since is null or zero_since <= now())`, since: 'zero_since', seconds: [] },
  {
    sql: `state = 'drawn' and drawn_at < now() - make_interval(secs => ?)`,
    since: 'drawn_at',
    seconds: [drawnSeconds],
  },
  {
    sql: `state = 'stored' and (crc32 is null or part_only) and zero_since < now() - make_interval(secs => ?)`,
    since: 'zero_since',
    seconds: [unreferencedSeconds],
  },
  {
    sql: `state = 'stored' and not (crc32 is null or part_only) and zero_since < now() - make_interval(secs => ?)`,
    since: 'zero_since',
    seconds: [downloadSeconds],
  },
]
