import type { Knex } from 'knex'

/** A host name belongs to the one process that renews its lease. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table host_leases (
      host_id text primary key,
      token text not null,           -- random, of one process
      holder jsonb not null,         -- which process of which machine, for those who ask
      held_until timestamptz not null
    );
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
