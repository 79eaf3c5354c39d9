import type { Knex } from 'knex'
import { lockTables } from '../migration-locks.ts'

/** What hosts copy of Postgres databases, so that they can be restored to any second. */
export async function up(knex: Knex): Promise<void> {
  await lockTables(knex, [['databases', 'share row exclusive']])
  await knex.raw(`
    -- Without foreign keys to databases: their references to segments are dropped in batches, after a database was deleted.

    -- The state of the copies of one volume of a database.
    create table database_copies (
      database_id text not null,
      generation integer not null,
      gap_at timestamptz,              -- WAL files were left out then: only later base backups go on
      stored bigint not null default 0, -- bytes in the object store that were ever recorded of it
      closed_at timestamptz,           -- its engine has ended cleanly and runs no more: its WAL files are all that there is
      waiting integer not null default 0,
      copied_at timestamptz,
      failure text,                    -- why the last WAL file was not copied; null = it was
      failed_at timestamptz,
      backup_failure text,             -- the same of the last base backup
      backup_failed_at timestamptz,
      primary key (database_id, generation)
    );

    create table database_backups (
      id text primary key,
      database_id text not null,
      generation integer not null,
      timeline bigint not null,
      first_file bigint not null,      -- numbers of WAL files: the first that it needs,
      last_file bigint,                -- and the last of those that follow without a gap; null = none was copied yet
      segment_id text not null references segments,
      size bigint not null,
      stored_before bigint not null default 0, -- bytes that were recorded of its volume before it
      from_at timestamptz not null,    -- its engine can be brought to every moment from here
      to_at timestamptz,               -- until when its WAL files have everything
      broken boolean not null default false,  -- a WAL file after the last one is missing
      created_at timestamptz not null default now()
    );
    create index database_backups_of on database_backups (database_id, generation, from_at);
    create index database_backups_segment on database_backups (segment_id);

    create table database_wal (
      database_id text not null,
      generation integer not null,
      timeline bigint not null,
      number bigint not null,
      segment_id text not null references segments,
      size integer not null,           -- as it is stored
      at timestamptz not null,         -- when its engine had finished it
      primary key (database_id, generation, timeline, number)
    );
    create index database_wal_segment on database_wal (segment_id);

    -- Which volume served from when on; none = always the one of the row.
    create table database_switches (
      id bigint generated always as identity primary key,
      database_id text not null,
      before integer not null,
      after integer not null,
      at timestamptz not null default now()
    );
    create index database_switches_of on database_switches (database_id, at);

    -- Restores, their undos and what operators do: whoever makes another volume serve.
    create function note_database_switch() returns trigger language plpgsql as $$
    begin
      insert into database_switches (database_id, before, after) values (new.id, old.generation, new.generation);
      return null;
    end $$;
    create trigger databases_switched after update on databases for each row
      when (old.generation <> new.generation) execute function note_database_switch();
    alter table databases enable always trigger databases_switched;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
