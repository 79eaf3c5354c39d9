import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Databases whose disk is full, and when their certificates are replaced. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['databases', 'access exclusive']])
  await knex.raw(`
    alter table databases
      add column read_only_since timestamptz,           -- its disk is nearly full, so writes have ended; null = they are admitted
      add column certificate_renew_at timestamptz,      -- no renewal is queued before; a failure moves it
      add column renewal_failures integer not null default 0; -- in a row; one that was queued counts until it has succeeded
    update databases set certificate_renew_at = certificate_ends_at - interval '132 days';
    create index databases_renewals on databases (certificate_renew_at) where certificate_renew_at is not null;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
