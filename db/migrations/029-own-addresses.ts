import type { Knex } from 'knex'

/** A port belongs to one application at the address where it is published, which need not be its host's. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table apps add column host_address text; -- where its container has published its port; null: at its host's address
    update apps set host_address = hosts.address from hosts where hosts.id = apps.host_id and apps.host_port is not null;
    drop index apps_host_port;
    create unique index apps_host_port on apps (host_id, coalesce(host_address, ''), host_port) where host_port is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
