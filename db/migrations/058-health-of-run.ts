import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Health belongs to one run and one path, whoever records the next ones: a process of before knows of no health. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['apps', 'access exclusive']])
  await knex.raw(`
    create function forget_health() returns trigger language plpgsql as $$
    begin
      new.health := null;
      return new;
    end $$;
    create trigger apps_health_of_run before update on apps for each row
      when ((old.container_id, old.started_at, old.health_path)
              is distinct from (new.container_id, new.started_at, new.health_path)
            and old.health is not distinct from new.health and new.health is not null)
      execute function forget_health();
    -- As 055-health.ts, and only of what runs and is checked. listServedDomains has the same expression.
    create or replace trigger apps_domain_updated after update on apps for each row
      when ((old.custom_domain, old.subdomain,
             coalesce(old.health->>'status' = 'unhealthy' and old.health_path is not null and old.status = 'running', false))
        is distinct from
            (new.custom_domain, new.subdomain,
             coalesce(new.health->>'status' = 'unhealthy' and new.health_path is not null and new.status = 'running', false)))
      execute function note_domain_of_app();
    alter table apps enable always trigger apps_health_of_run, enable always trigger apps_domain_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
