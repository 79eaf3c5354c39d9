import type { Knex } from 'knex'

/** Databases that customers rent, beside their applications. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- In the order of running transactions, and never waiting for long: what waits for these locks makes all others wait behind it.
    set local lock_timeout = '2s';
    do $$ begin
      for attempt in 1..150 loop
        begin
          lock table users in share row exclusive mode;
          lock table hosts in access exclusive mode;
          return;
        exception when lock_not_available then perform pg_sleep(2);
        end;
      end loop;
      raise exception 'hosts were in use for 10 minutes: end what reads them for long, such as a backup, and try again';
    end $$;

    -- What the installation makes once: the authority that signs certificates, the key that passwords derive from.
    create table authorities (
      name text primary key,
      certificate text,             -- PEM; null = a key only
      key_sealed bytea not null,
      created_at timestamptz not null default now()
    );

    -- By image: 'ready', or why this host will never have it. An image that is missing is being fetched or made.
    alter table hosts add column database_images jsonb not null default '{}';

    create table databases (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      owner_id text not null references users,
      name text not null,
      engine text not null check (engine in ('mongo', 'mysql', 'redis', 'postgres')),
      version text not null,
      image text not null,
      ram_mb integer not null,
      reserved_mb integer not null,                    -- of its plan and host: more than ram_mb while a change to more waits or runs
      cpu integer not null,
      host_id text not null references hosts,
      port integer not null check (port between 1 and 65535),
      uid integer not null default nextval('app_uids'),
      generation integer not null default 1,           -- of the volume that serves
      next_generation integer not null default 2,
      retired_generation integer,                      -- the volume before the last restore, kept until
      retired_until timestamptz,
      password_generation integer not null default 1,
      certificate text,
      client_sealed bytea,
      certificate_ends_at timestamptz,
      desired_state text not null default 'running' check (desired_state in ('running', 'stopped', 'deleted')),
      desired_if_kept text check (desired_if_kept in ('running', 'stopped')),
      status text not null default 'created'
        check (status in ('created', 'starting', 'running', 'restarting', 'exited', 'deleting')),
      container_id text,
      started_at timestamptz,
      boot_id text,
      exit_code integer,
      exit_oom boolean,
      exit_at timestamptz,
      restarts integer not null default 0,             -- after crashes, since it last ran for long
      restart_at timestamptz,                          -- when the next one is due; null = none
      last_stats jsonb,
      lost_with text,                                  -- the forgotten host that had its volume; null = it is there
      accepting boolean not null default false,        -- its creation may still be undone: nobody sees it
      provisioned_at timestamptz,
      created_at timestamptz not null default now(),
      unique (host_id, port)
    );
    create index databases_owner on databases (owner_id, created_at);
    create index databases_key on databases (get_byte(client_sealed, 0)); -- number of the key it is sealed with

    alter table snapshots add column contents text, add column proved_at timestamptz;

    create table database_metrics (
      database_id text not null references databases on delete cascade,
      at timestamptz not null,
      cpu real not null,
      ram real not null,
      net_in bigint not null,
      net_out bigint not null,
      primary key (database_id, at)
    );
    create index database_metrics_at on database_metrics (at);

    -- As app_changes and app_change_epochs, of databases. The port of one that was deleted is not given to another for some minutes.
    create unlogged table database_changes (
      number bigint not null default pg_current_xact_id()::text::bigint,
      database_id text not null,
      host_id text not null,
      port integer not null,
      at timestamptz not null default now(),
      primary key (number, database_id, host_id)
    );
    create index database_changes_host on database_changes (host_id, number);
    create index database_changes_at on database_changes (at);
    create unlogged table database_change_epochs (
      single boolean primary key default true check (single),
      id uuid not null default gen_random_uuid(),
      swept bigint not null default 0
    );

    create function note_database_change() returns trigger language plpgsql as $$
    begin
      if tg_op <> 'INSERT' then
        insert into database_changes (database_id, host_id, port) values (old.id, old.host_id, old.port) on conflict do nothing;
      end if;
      if tg_op <> 'DELETE' then
        insert into database_changes (database_id, host_id, port) values (new.id, new.host_id, new.port) on conflict do nothing;
      end if;
      return null;
    end $$;
    create trigger databases_changed after insert or delete on databases for each row execute function note_database_change();
    -- What the host watch does not look at is no change.
    create trigger databases_updated after update on databases for each row
      when ((old.host_id, old.port, old.generation, old.ram_mb, old.desired_state, old.status, old.container_id, old.started_at,
             old.boot_id, old.restart_at)
        is distinct from
            (new.host_id, new.port, new.generation, new.ram_mb, new.desired_state, new.status, new.container_id, new.started_at,
             new.boot_id, new.restart_at))
      execute function note_database_change();
    alter table databases enable always trigger databases_changed, enable always trigger databases_updated;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
