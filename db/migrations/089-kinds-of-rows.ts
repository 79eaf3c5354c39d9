import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/**
 * Finds the oldest entries of an account about one command, or about objects, without passing its others; and queued mails with a code
 * without passing those that wait before them.
 */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['audit', 'share row exclusive'],
    ['mails', 'share row exclusive'],
  ])
  await knex.raw(String.raw`
    create index audit_kinds on audit (
      account_id, (case when action ~ '^(objects|chunked)\.|^s3\.[A-Z]' then 'objects' else action end), id desc);
    create index mails_codes on mails (next_try_at) where state = 'queued' and template in ('sign-in', 'downgrade-code')`)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
