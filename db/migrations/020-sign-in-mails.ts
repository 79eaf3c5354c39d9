import type { Knex } from 'knex'

/** Mails that were sent are counted, not requests, and by the network that asked. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table sign_ins
      add column network text,                           -- that asked; null: from before this was kept
      add column mailed boolean not null default false,
      add column code_of text;                           -- the sign-in whose mailed code counts here too; null: its own
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
