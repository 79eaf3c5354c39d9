import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Keys are deleted a while after they ended: those that a program is granted for 90 days would otherwise remain. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['authorizations', 'share row exclusive'],
    ['api_keys', 'share row exclusive'],
  ])
  await knex.raw(`
    create index api_keys_ended on api_keys (least(revoked_at, expires_at)) where revoked_at is not null or expires_at is not null;
    create index authorizations_key on authorizations (key_id);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
