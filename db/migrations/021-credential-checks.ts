import type { Knex } from 'knex'

/** Which credential a key was used with. From here on, too, addresses of webhooks and upload tokens hold a check of their own. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table idempotency_keys add column credential_id text;  -- null: from before this was kept
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
