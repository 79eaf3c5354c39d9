import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Whether a deployment may use the result of an earlier install step, and whether it did. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['deployments', 'access exclusive'],
    ['hosts', 'access exclusive'],
  ])
  await knex.raw(`
    alter table deployments
      add column no_cache boolean not null default false,
      add column dependencies text;                          -- where they come from, in words
    alter table hosts add column install_cache jsonb;        -- what it holds, and what it may hold
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
