import type { Knex } from 'knex'

/** What is looked for in every round is found without a look at the whole table, however much history there is. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What a host has reserved is added up while a creation holds its row.
    drop index apps_host;
    create index apps_host on apps (host_id) include (ram_mb);
    -- Old deployments are looked through in this order, some at a time.
    drop index deployments_created;
    create index deployments_created on deployments (created_at, id);
    drop index deployments_archives;
    create index deployments_archives on deployments (created_at, id) where segment_id is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
