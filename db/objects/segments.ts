import type { Knex } from 'knex'
import { newId } from '../../policy/ids.ts'
import type { UpkeepPatience } from '../../policy/objects/blob-upkeep.ts'
import type { Db } from '../database.ts'

/** Draws an id for a body that is about to be stored: the row exists before the bytes, so nothing can be forgotten. */
export async function draw(db: Db): Promise<string> {
  const id = newId()
  await db('segments').insert({ id })
  return id
}

/** What is kept of a body beside its bytes; hex, and bytes. */
export interface BodyFacts {
  size: number
  sha256: string
  md5?: string
  crc32?: number
}

/** What the store learned about the body, and the first reference to it. False when the sweep took the id meanwhile. */
export async function attach(db: Db, id: string, body: BodyFacts): Promise<boolean> {
  const { size, sha256, md5 = null, crc32 = null } = body
  const changed = await db('segments')
    .where({ id })
    .whereIn('state', ['drawn', 'stored'])
    .update({ state: 'stored', refs: db.raw('refs + 1'), size, sha256, md5, crc32, zero_since: null })
  return changed === 1
}

/** One more reference to a body that has one already; false when nobody refers to it any more. */
export async function share(db: Db, id: string): Promise<boolean> {
  const changed = await db('segments')
    .where({ id, state: 'stored' })
    .where('refs', '>', 0)
    .update({ refs: db.raw('refs + 1') })
  return changed === 1
}

/** A body that takes long is still on its way: the sweep counts from now. */
export async function stillDrawn(db: Db, id: string): Promise<void> {
  await db('segments').where({ id, state: 'drawn' }).update({ drawn_at: db.fn.now() })
}

/** Gives one reference back; the sweep takes the body once nobody refers to it. */
export async function release(db: Db, id: string): Promise<void> {
  await db('segments')
    .where({ id })
    .where('refs', '>', 0)
    .update({ refs: db.raw('refs - 1'), zero_since: db.raw('case when refs = 1 then now() else null end') })
}

/** Gives back one reference for each time that an id stands in the list. */
export async function releaseAll(db: Db, ids: readonly string[]): Promise<void> {
  await db.raw(
    `with counted as (select id, count(*)::integer as n from unnest(?::text[]) as i (id) group by id),
          held as materialized (select s.id from segments s where s.id in (select id from counted) order by s.id for no key update)
     update segments s set refs = s.refs - c.n, zero_since = case when s.refs = c.n then now() else null end
       from counted c join held h on h.id = c.id where s.id = c.id and s.refs >= c.n`,
    [[...ids]],
  )
}

/** Marks an unattached segment as dying; the caller deletes the body and then calls `forget`. False when it is in use. */
export async function condemn(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id, refs: 0 }).update({ state: 'dying' })) === 1
}

/**
 * As `condemn`, of what the sweep may still have when the statement runs: a body that was attached and released since it was listed
 * has readers of its own, and its time begins anew.
 */
export async function condemnOverdue(db: Db, id: string, patience: SweepPatience): Promise<boolean> {
  return (await db('segments').where({ id, refs: 0 }).andWhere(overdue(patience)).update({ state: 'dying' })) === 1
}

/** False for an id that the sweep has taken altogether. */
export async function isKnown(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id }).first('id')) !== undefined
}

/** Drops the row of a body that is gone; false when another process did. */
export async function forget(db: Db, id: string): Promise<boolean> {
  return (await db('segments').where({ id, state: 'dying' }).delete()) === 1
}

/** A body that may be swept, and why. */
export interface Sweepable {
  id: string
  state: 'drawn' | 'stored' | 'dying'
  size: number | null
}

/** How long the sweep leaves alone what nobody refers to, in seconds. */
export type SweepPatience = Omit<UpkeepPatience, 'idleSeconds'>

/**
 * Bodies that never got a reference in time, that have lost the last one long enough ago, or that are half swept. Those of
 * objects, which are the ones whose crc32 is kept, wait for downloads that run.
 */
export async function sweepable(db: Db, patience: SweepPatience): Promise<Sweepable[]> {
  return db('segments')
    .where('refs', 0)
    .andWhere(overdue(patience))
    .orderBy('drawn_at')
    .limit(500)
    .select('id', 'state', db.raw('size::float8 as size'))
}

const overdue =
  ({ drawnSeconds, unreferencedSeconds, downloadSeconds }: SweepPatience) =>
  (where: Knex.QueryBuilder) =>
    where
      .where('state', 'dying')
      .orWhereRaw(`state = 'drawn' and drawn_at < now() - make_interval(secs => ?)`, [drawnSeconds])
      .orWhereRaw(
        `state = 'stored' and zero_since < now() - make_interval(secs => case when crc32 is null then ?::integer else ?::integer end)`,
        [unreferencedSeconds, downloadSeconds],
      )
