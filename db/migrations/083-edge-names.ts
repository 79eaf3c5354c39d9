import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The id of a proxy is made once, in its folder; its name is what its operator calls it. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['edges', 'access exclusive']])
  await knex.raw('alter table edges add name text') // null: of a version before this column
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
