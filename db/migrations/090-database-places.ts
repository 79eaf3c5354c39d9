import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Where clients reach the databases of a host, as its process says at each start. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['hosts', 'access exclusive']])
  // null: of a version before these columns
  await knex.raw('alter table hosts add database_domain text, add database_addresses text[]')
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
