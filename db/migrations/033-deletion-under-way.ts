import type { Knex } from 'knex'

/** While an application is wanted deleted: what is wanted of it if its deletion does not succeed. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`alter table apps add column desired_if_kept text check (desired_if_kept in ('running', 'stopped'))`)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
