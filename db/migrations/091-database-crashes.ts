import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The last crash of a database stays known after its restart, and when the last ones were. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['databases', 'access exclusive']])
  await knex.raw(`
    alter table databases
      add column crash_code integer,
      add column crash_oom boolean,
      add column crash_at timestamptz,          -- null = it has never crashed
      add column crash_times timestamptz[] not null default '{}'; -- of a day, the newest first; not all, if there were many
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
