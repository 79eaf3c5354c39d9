import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** What the proxy has cached of an application is purged by raising a number of its row. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['apps', 'access exclusive']])
  await knex.raw(`
    -- A part of the key of everything that the proxy caches of an application.
    alter table apps add column cache_version int not null default 0;

    -- As 040-rounds.ts, and with the new column: a purge is a change of the route.
    create or replace trigger apps_updated after update on apps for each row
      when ((old.host_id, old.subdomain, old.desired_state, old.status, old.release, old.container_id, old.host_port,
             old.host_address, old.started_at, old.boot_id, old.cache_version)
        is distinct from
            (new.host_id, new.subdomain, new.desired_state, new.status, new.release, new.container_id, new.host_port,
             new.host_address, new.started_at, new.boot_id, new.cache_version))
      execute function note_app_change();
    alter table apps enable always trigger apps_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
