import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The sweep reads only the segments that are due, however many wait. Its indexes are built in 081: this lock stops reads too. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['segments', 'access exclusive']])
  await knex.raw(`
    -- Only ever a part of open uploads: nobody can have read it. False for segments of before.
    alter table segments add column part_only boolean not null default false;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
