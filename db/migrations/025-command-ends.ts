import type { Knex } from 'knex'

/** When whoever asked for an operation is answered, whatever has become of it. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table operations add column end_before timestamptz;  -- null: nobody waits for so long only
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
