import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** An upload counts its parts: who sends one no longer adds up all of its account, 100,000 at most, while others wait. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['uploads', 'access exclusive'],
    ['upload_parts', 'access exclusive'],
  ])
  await knex.raw(`
    alter table uploads add column part_count integer not null default 0;
    alter table uploads add column part_bytes bigint not null default 0;
    update uploads u set part_count = p.parts, part_bytes = p.bytes
      from (select upload_id, count(*) as parts, sum(size) as bytes from upload_parts group by upload_id) p where p.upload_id = u.id;

    -- Once for a statement, and also for processes of the version before.
    create function count_parts() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        update uploads u set part_count = part_count + c.parts, part_bytes = part_bytes + c.bytes
          from (select upload_id, count(*) as parts, sum(size) as bytes from added group by upload_id) c where u.id = c.upload_id;
      elsif tg_op = 'DELETE' then
        update uploads u set part_count = part_count - c.parts, part_bytes = part_bytes - c.bytes
          from (select upload_id, count(*) as parts, sum(size) as bytes from removed group by upload_id) c where u.id = c.upload_id;
      else
        update uploads u set part_bytes = part_bytes + c.bytes
          from (select upload_id, sum(bytes) as bytes
                  from (select upload_id, size as bytes from added union all select upload_id, -size from removed) p
                 group by upload_id) c
         where u.id = c.upload_id and c.bytes <> 0;
      end if;
      return null;
    end $$;
    create trigger count_added after insert on upload_parts
      referencing new table as added for each statement execute function count_parts();
    create trigger count_removed after delete on upload_parts
      referencing old table as removed for each statement execute function count_parts();
    create trigger count_changed after update on upload_parts
      referencing old table as removed new table as added for each statement execute function count_parts();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
