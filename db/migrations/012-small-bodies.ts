import type { Knex } from 'knex'

/** Small bodies of objects lie beside their row: one commit stores both. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table segments add column bytes bytea;  -- null: the object store has it
    -- What is uploaded is mostly compressed already, and is read whole.
    alter table segments alter column bytes set storage external;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
