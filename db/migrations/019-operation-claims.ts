import type { Knex } from 'knex'

/** An operation that runs belongs to one run of its lane; what another one still wants to write is refused. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table operations
      add column claim text,                                 -- run of the lane that works on it; null: begun before there were claims
      add column claim_step integer not null default 0,      -- the last step of that run that wrote
      add column claims_lost text[] not null default '{}';   -- runs that it was taken from
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
