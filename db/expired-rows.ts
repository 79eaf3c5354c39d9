import { rowsAtOnce } from '../policy/retention.ts'
import type { Db } from './database.ts'

export interface ExpiredRows {
  table: string
  /** A condition on `old`, the alias of the table, with named values. */
  when: string
  values?: Record<string, number | string>
  limit?: number
}

/** Deletes a batch of a table's expired rows; rows locked by others wait for the next round. Resolves to the number deleted. */
export async function deleteExpired(
  db: Db,
  { table, when, values = {}, limit = rowsAtOnce }: ExpiredRows,
): Promise<number> {
  const { rowCount } = await db.raw(
    `delete from ${table} where ctid = any(array(
       select ctid from ${table} old where ${when} limit :limit for update skip locked))`,
    { ...values, limit },
  )
  return rowCount
}
