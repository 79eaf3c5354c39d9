import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Certificates are found by their names, and places of orders say for whom they are, and what for. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['certificates', 'share row exclusive'],
    ['certificate_orders', 'access exclusive'],
  ])
  await knex.raw(`
    create index certificates_hostname on certificates (hostname);
    alter table certificate_orders
      add owner_id text,                             -- null = of the platform itself, or of a version before this column
      add renewal boolean not null default false;    -- of a name that has a certificate: it takes no place of its domain
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
