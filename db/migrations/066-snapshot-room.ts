import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** What a snapshot of a database takes of a disk when it is restored: its archive may be many times smaller. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['snapshots', 'access exclusive']])
  await knex.raw(`
    -- Bytes that the dump and the loaded copy took when it was proved; null = of an application, or of an earlier version.
    alter table snapshots add column restored_bytes bigint;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
