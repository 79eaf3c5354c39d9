import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The rest of 079, which reads need not wait for. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['segments', 'share row exclusive']])
  await knex.raw(`
    -- Of a segment that is being removed: when that is next tried.
    update segments set zero_since = now() where state = 'dying' and zero_since is null;
    create index segments_unreferenced on segments ((crc32 is null or part_only), zero_since) where refs = 0 and state = 'stored';
    create index segments_dying on segments (zero_since) where refs = 0 and state = 'dying';

    -- A part that gets another reference is that of an object too, which may be read; also when a process of the version before completes
    -- the upload.
    create function end_part_only() returns trigger language plpgsql as $$
    begin
      new.part_only := false;
      return new;
    end $$;
    create trigger end_part_only before update of refs on segments
      for each row when (old.part_only and new.refs > old.refs) execute function end_part_only();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
