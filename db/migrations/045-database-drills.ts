import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** The image that a database keeps, and the evidence that its snapshots can be restored. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [
    ['hosts', 'access exclusive'],
    ['databases', 'access exclusive'],
  ])
  await knex.raw(`
    -- Ids of the images that the host has, by name: an image that was replaced under its name has another.
    alter table hosts add column database_image_ids jsonb not null default '{}';

    alter table databases
      add column image_id text,                        -- it runs with this one until it is upgraded; null = not started since this column is there
      add column drill_after timestamptz;              -- no scheduled drill is requested before

    -- Evidence outlives the database, its snapshots and its operations.
    create table database_drills (
      id text primary key,
      database_id text not null,
      owner_id text not null,
      operation_id text not null unique,
      actor text not null,
      snapshot_id text,                                -- null = there was none
      snapshot_at timestamptz,
      host_id text not null,                           -- where it was restored
      outcome text not null check (outcome in ('good', 'failed')),
      reason text,                                     -- of a failure
      size bigint,                                     -- bytes of the archive
      digest text,                                     -- of the restored contents
      expected text,                                   -- the one that was recorded with the snapshot
      started_at timestamptz not null,
      ended_at timestamptz not null default now()
    );
    create index database_drills_of on database_drills (database_id, ended_at desc);
    create index database_drills_ended on database_drills (ended_at);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
