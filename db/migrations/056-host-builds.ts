import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** What a host reports about its builds, for people: by name, its state and what to do. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['hosts', 'access exclusive']])
  await knex.raw(`alter table hosts add column builds jsonb not null default '{}'`)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
