import type { Knex } from 'knex'

/** The archives that an application still has are found without a look at all of its history. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create index deployments_archives_app on deployments (app_id) where segment_id is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
