import type { Knex } from 'knex'

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
