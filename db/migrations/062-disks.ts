import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** A volume never shrinks, so its disk follows the most memory in MB that its application or database has had. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['apps', 'access exclusive'],
    ['databases', 'access exclusive'],
  ])
  await knex.raw(`
    alter table apps add disk_for_mb integer not null default 0;
    alter table databases add disk_for_mb integer not null default 0;
    update apps set disk_for_mb = ram_mb;
    update databases set disk_for_mb = greatest(ram_mb, reserved_mb);

    create function note_disk_of_app() returns trigger language plpgsql as $$
    begin
      new.disk_for_mb := greatest(new.disk_for_mb, new.ram_mb);
      return new;
    end $$;
    create function note_disk_of_database() returns trigger language plpgsql as $$
    begin
      new.disk_for_mb := greatest(new.disk_for_mb, new.reserved_mb);
      return new;
    end $$;
    create trigger apps_disk before insert or update of ram_mb on apps for each row execute function note_disk_of_app();
    create trigger databases_disk before insert or update of reserved_mb on databases for each row
      execute function note_disk_of_database();
    alter table apps enable always trigger apps_disk;
    alter table databases enable always trigger databases_disk;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
