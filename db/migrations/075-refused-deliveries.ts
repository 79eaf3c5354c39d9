import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Of deliveries that deployed nothing each application retains a number: all of the git provider's app have the same source. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['webhook_deliveries', 'access exclusive']])
  await knex.raw(`
    create index webhook_deliveries_refused on webhook_deliveries (app_id, source, received_at desc)
      where verdict in ('ignored', 'refused');
    drop index webhook_deliveries_source;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
