import type { Knex } from 'knex'

/** What a host's engine last told of itself: tells a start of it that took containers down from one that did not. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table hosts
      add column engine_began text,            -- another one after a start at which no container ran; null = never told
      add column engine_live_restore boolean;  -- whether containers live on when it ends

    -- Daily snapshots ask every few seconds for the last one of each application.
    create index snapshots_automatic on snapshots (target_id, created_at desc)
      where target_type = 'app' and origin = 'automatic';
    create index snapshots_failed on snapshots (created_at) where state = 'failed';
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
