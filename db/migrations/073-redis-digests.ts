import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/**
 * Digests of Redis list functions in a fixed order, and leave fields that expire out in every version that has them. What was stored before
 * would not match: these snapshots are restored without a comparison, which the engine's own checksum of a dump remains for.
 */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['snapshots', 'share row exclusive']])
  await knex.raw(`update snapshots set contents = null where target_type = 'database' and runtime = 'redis'`)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
