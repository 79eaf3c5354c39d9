import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Daily snapshots of applications alternate between accounts, are delayed after failures, and warn owners, as those of databases do. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['apps', 'access exclusive'],
    ['snapshots', 'share row exclusive'],
  ])
  await knex.raw(`
    alter table apps
      -- When an automatic snapshot was queued last.
      add column snapshot_tried_at timestamptz,
      -- When its owner is warned that there was no good snapshot for long; null = was warned. A good one moves it.
      add column snapshot_warn_at timestamptz default now() + interval '3 days';
    create index apps_snapshot_tried on apps (host_id, owner_id, snapshot_tried_at);
    create index apps_snapshot_warn on apps (snapshot_warn_at) where snapshot_warn_at is not null;
    -- A restore compares what it has unpacked with what was recorded.
    create index snapshots_segment on snapshots (segment_id) where segment_id is not null;

    -- Who has paid has snapshots from then on. What is locked just now is looked at hours later.
    create or replace function snapshots_due_now() returns trigger language plpgsql as $$
    begin
      update apps
         set snapshot_due_at = least(snapshot_due_at, now()),
             snapshot_warn_at = case when snapshot_warn_at is not null then greatest(snapshot_warn_at, now() + interval '3 days') end
       where id in (select id from apps where owner_id = new.id for no key update skip locked);
      update databases
         set snapshot_due_at = least(snapshot_due_at, now()),
             snapshot_warn_at = case when snapshot_warn_at is not null then greatest(snapshot_warn_at, now() + interval '3 days') end
       where id in (select id from databases where owner_id = new.id for no key update skip locked);
      return null;
    end $$;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
