import type { Indexes } from '../migration-locks.ts'

/**
 * Finds the oldest entries of an account about one command, or about objects, without passing its others; and queued mails with a code
 * without passing those that wait before them. Both tables are large and written all the time: the indexes are built before `up`.
 */
export const indexes: Indexes = {
  audit_kinds: String.raw`on audit (
      account_id, (case when action ~ '^(objects|chunked)\.|^s3\.[A-Z]' then 'objects' else action end), id desc)`,
  mails_codes: `on mails (next_try_at) where state = 'queued' and template in ('sign-in', 'downgrade-code')`,
}

export async function up(): Promise<void> {
  // Its indexes are all that it adds.
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
