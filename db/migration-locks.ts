import { setTimeout as pause } from 'node:timers/promises'
import type { Knex } from 'knex'
import { ignoreError } from '../lib/async/ignore-error.ts'

/** A table, and how a migration locks it. */
type TableLock = readonly [table: string, mode: 'share row exclusive' | 'access exclusive']

/**
 * Locks tables for the rest of a migration's transaction, in this order, which is to be that in which running transactions lock them. Gives
 * up after 2 s and tries again, as everyone else waits behind a lock that is waited for; likewise after a deadlock. Rejects when a table
 * was in use for 10 minutes.
 */
export async function lockTables(knex: Knex, locks: readonly TableLock[]): Promise<void> {
  const statements = locks.map(([table, mode]) => `lock table ${table} in ${mode} mode;`).join('\n          ')
  const tables = locks.map(([table]) => table).join(' or ')
  await knex.raw(`
    set local lock_timeout = '2s';
    do $$ begin
      for attempt in 1..150 loop
        begin
          ${statements}
          return;
        exception when lock_not_available or deadlock_detected then perform pg_sleep(2);
        end;
      end loop;
      raise exception '${tables} were in use for 10 minutes: end what reads them for long, such as a backup, and try again';
    end $$;
  `)
}

/** Indexes by name, each as what follows its name in `create index`. */
export type Indexes = Readonly<Record<string, string>>

/**
 * Builds indexes outside a transaction, while others read and write their tables, and replaces one that a build left invalid. Processes
 * that migrate concurrently build one after the other: they try for the lock, as who waits for it has a snapshot that a build waits for.
 */
export async function buildIndexes(db: Knex, indexes: Indexes): Promise<void> {
  const connection = await db.client.acquireConnection()
  const run = (sql: string, values: string[] = []) => db.raw(sql, values).connection(connection)
  const lock = `(hashtext('berth.indexes'))`
  try {
    while (!(await run(`select pg_try_advisory_lock${lock} as mine`)).rows[0].mine) await pause(500)
    for (const [name, definition] of Object.entries(indexes)) {
      const { rows } = await run('select indisvalid from pg_index where indexrelid = to_regclass(?)', [name])
      if (rows[0]?.indisvalid) continue
      if (rows[0]) await run(`drop index concurrently ${name}`)
      await run(`create index concurrently ${name} ${definition}`)
    }
  } finally {
    await run(`select pg_advisory_unlock${lock}`).catch(ignoreError('the lock ends with its connection'))
    db.client.releaseConnection(connection)
  }
}
