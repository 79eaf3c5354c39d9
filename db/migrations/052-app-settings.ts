import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** What owners decide about the requests to their applications; applications at the defaults have no row. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['apps', 'share row exclusive'],
    ['edges', 'access exclusive'],
  ])
  await knex.raw(`
    create table app_settings (
      app_id text primary key references apps on delete cascade,
      version text not null,                   -- another one with each change
      settings jsonb not null,                 -- policy/network/app-settings.ts
      page_bytes int not null,                 -- of the pages in them
      changed_at timestamptz not null default now()
    );

    -- A change for whoever keeps the proxy, as one of the application's own row.
    create function note_app_settings() returns trigger language plpgsql as $$
    begin
      insert into app_changes (app_id, host_id, subdomain)
        select id, host_id, coalesce(subdomain, '') from apps where id = coalesce(new.app_id, old.app_id)
        on conflict do nothing;
      return null;
    end $$;
    create trigger app_settings_changed after insert or update or delete on app_settings
      for each row execute function note_app_settings();
    alter table app_settings enable always trigger app_settings_changed;

    -- Host names of which this proxy has refused something: nothing of them counts as applied.
    alter table edges add column refused text[] not null default '{}';
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
