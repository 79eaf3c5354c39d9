import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** A member of a custom name whose health is not known yet, as of a run that has just begun, stands behind those that are known to work. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['apps', 'access exclusive']])
  await knex.raw(`
    create function member_health(health jsonb, health_path text, status text) returns text language sql immutable as $$
      select case
        when health_path is null then 'healthy'
        when health is null then 'unknown'
        when health->>'status' = 'unhealthy' and status = 'running' then 'unhealthy'
        else 'healthy'
      end
    $$;
    -- As 058-health-of-run.ts, which knew of unhealthy members only.
    create or replace trigger apps_domain_updated after update on apps for each row
      when ((old.custom_domain, old.subdomain, member_health(old.health, old.health_path, old.status))
        is distinct from (new.custom_domain, new.subdomain, member_health(new.health, new.health_path, new.status)))
      execute function note_domain_of_app();
    alter table apps enable always trigger apps_domain_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
