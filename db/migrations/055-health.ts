import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Health checks of applications that name a path for them. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['apps', 'access exclusive']])
  await knex.raw(`
    alter table apps
      add column health_path text,       -- HEALTH of the configuration file; null = the application is not checked
      add column health jsonb,           -- of the run that started_at names: status, since, reason; null = not known yet
      add column health_restart jsonb;   -- the last restart for its health: at, reason

    -- As 050-domains.ts, and with the new column: its host checks an application from the change on.
    create or replace trigger apps_updated after update on apps for each row
      when ((old.host_id, old.subdomain, old.desired_state, old.status, old.release, old.container_id, old.host_port,
             old.host_address, old.started_at, old.boot_id, old.cache_version, old.health_path)
        is distinct from
            (new.host_id, new.subdomain, new.desired_state, new.status, new.release, new.container_id, new.host_port,
             new.host_address, new.started_at, new.boot_id, new.cache_version, new.health_path))
      execute function note_app_change();
    -- As 051-domains.ts: a member of a load balancer leaves its rotation, or comes back.
    create or replace trigger apps_domain_updated after update on apps for each row
      when ((old.custom_domain, old.subdomain, coalesce(old.health->>'status', '') = 'unhealthy')
        is distinct from
            (new.custom_domain, new.subdomain, coalesce(new.health->>'status', '') = 'unhealthy'))
      execute function note_domain_of_app();
    alter table apps enable always trigger apps_updated, enable always trigger apps_domain_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
