import type { Knex } from 'knex'

/** A port of a host belongs to one application at most, and only within the boot in which its container was started. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table hosts
      add column boot_id text,         -- boot of the machine that the host runs in
      add column routed_boot_id text;  -- boot whose start the proxy's table has taken into account

    -- Of several claims of one port the newest start is believed; the host watch finds out about the others.
    update apps set host_port = null where id in (
      select id from (
        select id, row_number() over (partition by host_id, host_port order by started_at desc nulls last, id) as place
        from apps where host_port is not null
      ) claims where place > 1
    );
    create unique index apps_host_port on apps (host_id, host_port) where host_port is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
