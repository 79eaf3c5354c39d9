import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Events of names that are gone say since when: only these expire, and are found without a look at all others. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['domains', 'share row exclusive'],
    ['domain_events', 'access exclusive'],
  ])
  await knex.raw(`
    alter table domain_events add released_at timestamptz;  -- null while the name has a row
    update domain_events e set released_at = now() where not exists (select 1 from domains d where d.hostname = e.hostname);
    create index domain_events_released on domain_events (released_at) where released_at is not null;
    drop index domain_events_at;

    create function stamp_domain_events() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        update domain_events set released_at = null where hostname = new.hostname and released_at is not null;
      else
        update domain_events set released_at = now() where hostname = old.hostname;
      end if;
      return null;
    end $$;
    -- The last event is recorded after the row is gone.
    create function stamp_domain_event() returns trigger language plpgsql as $$
    begin
      if not exists (select 1 from domains where hostname = new.hostname) then new.released_at := now(); end if;
      return new;
    end $$;
    create trigger domains_stamp_events after insert or delete on domains for each row execute function stamp_domain_events();
    create trigger domain_events_stamp before insert on domain_events for each row execute function stamp_domain_event();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
