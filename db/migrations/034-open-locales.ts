import type { Knex } from 'knex'

/** Accounts whose language nobody has chosen yet take that of the browser of their first sign-in. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`alter table users add column locale_open boolean not null default false`)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
