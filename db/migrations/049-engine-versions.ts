import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The version of the engine that a snapshot of a database is from: an older one cannot read it. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['snapshots', 'access exclusive']])
  await knex.raw(`
    -- Null: of an application, or from before this column was there.
    alter table snapshots add column engine_version text;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
