import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** Daily snapshots of databases, and what their owners were warned of. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['databases', 'access exclusive'],
    ['snapshots', 'share row exclusive'],
  ])
  await knex.raw(`
    alter table databases
      -- The moment before which no round has to look whether an automatic snapshot is due, and when one was queued last.
      add column snapshot_due_at timestamptz not null default now(),
      add column snapshot_tried_at timestamptz,
      -- When its owner is warned that there was no good snapshot for long; null = was warned. A good one moves it.
      add column snapshot_warn_at timestamptz default now() + interval '3 days',
      -- Since when its owner is warned of its memory; null = is not.
      add column memory_warned_at timestamptz,
      -- How many levels of its disk its owner is warned of (policy/databases/disk-levels.ts).
      add column disk_warned smallint not null default 0;
    create index databases_snapshot_due on databases (host_id, snapshot_due_at);
    create index databases_snapshot_tried on databases (host_id, owner_id, snapshot_tried_at);
    create index databases_snapshot_warn on databases (snapshot_warn_at) where snapshot_warn_at is not null;

    -- Rounds ask every few seconds for the last ones of each database.
    create index snapshots_automatic_database on snapshots (target_id, created_at desc)
      where target_type = 'database' and origin = 'automatic';

    -- Who has paid has snapshots from then on. What is locked just now is looked at hours later.
    create or replace function snapshots_due_now() returns trigger language plpgsql as $$
    begin
      update apps set snapshot_due_at = now() where id in (
        select id from apps where owner_id = new.id and snapshot_due_at > now() for no key update skip locked);
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
