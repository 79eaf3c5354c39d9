import type { Knex } from 'knex'

/** A delivery that came before is answered with its deployment, and has no row of its own to say so. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- No version has written one; a row that somebody wrote by hand stops no upgrade.
    update webhook_deliveries set verdict = 'ignored' where verdict = 'duplicate';
    alter table webhook_deliveries
      drop constraint webhook_deliveries_verdict_check,
      add constraint webhook_deliveries_verdict_check check (verdict in ('queued', 'superseded', 'ignored', 'refused'));
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
