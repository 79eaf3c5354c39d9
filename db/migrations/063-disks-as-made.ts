import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The disk of a database follows the memory that it has had, and no longer what a change of size reserved that failed before it grew the volume. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['databases', 'access exclusive']])
  await knex.raw(`
    drop trigger databases_disk on databases;
    create or replace function note_disk_of_database() returns trigger language plpgsql as $$
    begin
      new.disk_for_mb := greatest(new.disk_for_mb, new.ram_mb);
      return new;
    end $$;
    create trigger databases_disk before insert or update of ram_mb on databases for each row
      execute function note_disk_of_database();
    alter table databases enable always trigger databases_disk;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
