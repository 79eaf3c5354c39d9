import { type Db, openDatabase } from '../../../db/database.ts'

/** Runs `locking` in a transaction of another process, as a slow one does; resolves to how to let its locks go. */
export async function holdLocks(db: Db, locking: (trx: Db) => Promise<unknown>): Promise<() => Promise<void>> {
  const other = openDatabase({ url: db.client.config.connection.connectionString, pool: 1 })
  const trx = await other.transaction()
  await locking(trx)
  return async () => {
    await trx.rollback()
    await other.destroy()
  }
}

/** How many connections to this database wait for a lock. */
export async function waitingForLocks(db: Db): Promise<number> {
  const { rows } = await db.raw(
    `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
  )
  return rows[0].n
}
