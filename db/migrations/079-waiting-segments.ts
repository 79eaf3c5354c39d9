import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The sweep reads only the segments that are due, however many wait. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['segments', 'access exclusive']])
  await knex.raw(`
    -- Only ever a part of open uploads: nobody can have read it. False for segments of before.
    alter table segments add column part_only boolean not null default false;

    -- Of a segment that is being removed: when that is next tried.
    update segments set zero_since = now() where state = 'dying' and zero_since is null;
    create index segments_unreferenced on segments ((crc32 is null or part_only), zero_since) where refs = 0 and state = 'stored';
    create index segments_dying on segments (zero_since) where refs = 0 and state = 'dying';
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
