import type { Knex } from 'knex'

/** What an operator does to the platform itself belongs to no account. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw('alter table audit alter column account_id drop not null')
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
