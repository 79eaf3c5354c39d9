import { storable } from '../../lib/storable-text.ts'
import type { Db } from '../database.ts'

const imageWait = 'preparing image'

/**
 * Adds to the current step of an operation which image it waits for, or with null takes that off again. What the step begins with stays:
 * others decide by it (`switchingVersions`).
 */
export async function recordImageWait(db: Db, id: string, words: string | null): Promise<void> {
  const before = `regexp_replace(coalesce(step, ''), '(: |)${imageWait}.*$', '')`
  const after = words === null ? null : storable(`${imageWait} ${words}`)
  const step = db.raw(`nullif(concat_ws(': ', nullif(${before}, ''), ?::text), '')`, [after])
  await db('operations').where({ id, state: 'running' }).update({ step })
}
