import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Since when a slot has its holder: operators are shown what a waiting snapshot waits for. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['blob_leases', 'access exclusive']])
  await knex.raw('alter table blob_leases add column since timestamptz not null default now()')
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
