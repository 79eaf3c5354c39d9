import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** A drill that read nothing, because the object store or its host was away, is evidence of that, and says nothing of the snapshot. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['database_drills', 'access exclusive']])
  await knex.raw(`
    alter table database_drills
      add column code text,                            -- of a drill that is not good; null = of an earlier version
      drop constraint database_drills_outcome_check,
      add constraint database_drills_outcome_check check (outcome in ('good', 'failed', 'prevented'));
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
