import type { Knex } from 'knex'

/** What an application holds: variables, snapshots, metrics; mail to its owner; listeners of its live stream. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table app_variables (
      app_id text not null references apps on delete cascade,
      name text not null,
      value_sealed bytea not null,
      primary key (app_id, name)
    );
    create index app_variables_key on app_variables (get_byte(value_sealed, 0)); -- number of the key it is sealed with
    alter table apps
      add column variables_version integer not null default 0,  -- counts every change
      add column variables_running integer;                     -- the version that the container was started with

    -- One row per snapshot, written with the operation that makes it.
    create table snapshots (
      id text primary key check (id ~ '^[A-Za-z0-9_-]{32}$'),   -- version_id on the wire
      target_type text not null default 'app' check (target_type in ('app', 'database')),
      target_id text not null,
      owner_id text not null references users,
      operation_id text not null references operations,
      name text not null,           -- resource id, runtime and origin; many versions have one name
      runtime text,
      origin text not null check (origin in ('automatic', 'manual')),
      state text not null default 'making' check (state in ('making', 'good', 'failed')),
      segment_id text,              -- the archive in the object store
      size bigint,
      digest text,                  -- of what was archived: equal digests share one body
      config jsonb,                 -- the configuration at that time
      variables_version integer,
      created_at timestamptz not null default now(),
      finished_at timestamptz
    );
    create unique index snapshots_making on snapshots (target_type, target_id) where state = 'making';
    create index snapshots_target on snapshots (target_type, target_id, created_at desc);
    create index snapshots_owner on snapshots (owner_id, created_at desc);
    create index snapshots_operation on snapshots (operation_id);

    -- A restore is a deployment whose files come from a snapshot; it is not listed among deploys.
    alter table deployments
      add column snapshot_id text references snapshots on delete set null,
      drop constraint deployments_source_check,
      add constraint deployments_source_check check (source in ('git', 'upload', 'snapshot')),
      drop constraint deployments_trigger_check,
      add constraint deployments_trigger_check check (trigger in ('upload', 'webhook', 'app', 'restore'));
    create index deployments_snapshot on deployments (snapshot_id) where snapshot_id is not null;

    -- Points of 5 minutes, kept for 24 hours. CPU in percent, memory in MB, network in bytes of these 5 minutes.
    create table app_metrics (
      app_id text not null references apps on delete cascade,
      at timestamptz not null,
      cpu real not null,
      ram real not null,
      net_in bigint not null,
      net_out bigint not null,
      primary key (app_id, at)
    );
    create index app_metrics_at on app_metrics (at);

    -- Mail to be sent; \`once\` names an occasion that is told only once. Values hold no secrets.
    create table mails (
      id text primary key,
      user_id text not null references users on delete cascade,
      template text not null,
      fields jsonb not null default '{}',
      once text unique,
      state text not null default 'queued' check (state in ('queued', 'sent', 'failed')),
      attempts integer not null default 0,
      next_try_at timestamptz not null default now(),
      last_error text,
      created_at timestamptz not null default now(),
      sent_at timestamptz
    );
    create index mails_queue on mails (next_try_at) where state = 'queued';

    -- Leases of open streams, renewed by the process that serves them.
    create unlogged table realtime_listeners (
      id text primary key,
      user_id text not null,
      app_id text not null,
      expires_at timestamptz not null
    );
    create index realtime_listeners_user on realtime_listeners (user_id);
    create index realtime_listeners_app on realtime_listeners (app_id);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
