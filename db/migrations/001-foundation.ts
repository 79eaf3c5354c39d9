import type { Knex } from 'knex'

/** Accounts, credentials, limits, hosts, applications, operations, deployments and stored segments. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table users (
      id text primary key check (id ~ '^[0-9]{18}$'),
      name text not null,
      email text not null unique,
      locale text not null default 'en-US',
      plan text not null default 'free',
      plan_ends_at timestamptz,
      blocked_at timestamptz,
      created_at timestamptz not null default now()
    );

    create table api_keys (
      id text primary key,
      user_id text not null references users on delete cascade,
      hash bytea not null unique,
      name text not null default 'default',
      scopes text[],                -- null = full access
      resources text[],             -- null = every resource of the account
      created_at timestamptz not null default now(),
      expires_at timestamptz,
      revoked_at timestamptz
    );
    create index api_keys_user on api_keys (user_id);

    create table sessions (
      id text primary key,
      user_id text not null references users on delete cascade,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,
      revoked_at timestamptz
    );

    -- Counters may be lost with a crash of Postgres: a limit that starts anew harms nobody.
    create unlogged table rate_limits (
      key text primary key,
      used integer not null,
      window_ends_at timestamptz not null,
      blocked_until timestamptz
    );

    create table idempotency_keys (
      user_id text not null references users on delete cascade,
      key text not null,
      route text not null,
      fingerprint text,
      status integer,               -- null while the first request runs
      body jsonb,
      headers jsonb,
      created_at timestamptz not null default now(),
      primary key (user_id, key)
    );

    create table hosts (
      id text primary key,          -- the name given to 'berth host --name'
      address text not null,
      read_url text,                -- the host's own server for logs, stats and files
      memory_mb integer not null,
      disk_mb integer not null,
      protections jsonb not null default '{}',
      draining boolean not null default false,
      last_seen_at timestamptz not null default now(),
      created_at timestamptz not null default now()
    );

    create table settings (
      name text primary key,
      value jsonb not null
    );

    create sequence app_uids start 10001;
    create table apps (
      id text primary key check (id ~ '^[0-9a-f]{24}$'),
      owner_id text not null references users,
      name text not null,
      description text,
      language text not null,
      version text not null,        -- as asked for: recommended, latest or a number
      runtime_version text not null,
      ram_mb integer not null,
      cpu integer not null,
      subdomain text unique,
      custom_domain text,
      main text,
      start_command text,
      runtime_key text,             -- RUNTIME of the configuration file, when it stands there
      autorestart boolean not null default false,
      host_id text not null references hosts,
      uid integer not null default nextval('app_uids'),
      desired_state text not null default 'running' check (desired_state in ('running', 'stopped', 'deleted')),
      status text not null default 'created'
        check (status in ('created', 'starting', 'running', 'restarting', 'exited', 'deleting')),
      release integer not null default 0,      -- the release that serves; 0 = none yet
      next_release integer not null default 1,
      container_id text,
      host_port integer,
      started_at timestamptz,
      boot_id text,                 -- boot of the machine in which the container was started
      exit_code integer,
      exit_oom boolean,
      exit_at timestamptz,
      last_autorestart_at timestamptz,
      last_stats jsonb,             -- last figures seen, shown while the host does not answer
      provisioned_at timestamptz,
      created_at timestamptz not null default now()
    );
    create index apps_owner on apps (owner_id, created_at);
    create index apps_host on apps (host_id);

    create table operations (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      seq bigint generated always as identity,
      target_type text not null default 'app' check (target_type in ('app', 'database')),
      target_id text not null,
      kind text not null,
      owner_id text not null,
      actor text not null,          -- user id, 'host-watch', 'operator:<name>'
      input jsonb not null default '{}',
      state text not null default 'queued'
        check (state in ('queued', 'running', 'success', 'error', 'expired', 'cancelled')),
      step text,                    -- what it does now, in words
      code text,
      message text,
      created_at timestamptz not null default now(),
      started_at timestamptz,
      finished_at timestamptz
    );
    create index operations_queue on operations (target_type, target_id, seq) where state in ('queued', 'running');
    create index operations_target on operations (target_type, target_id, seq);

    create table deployments (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      app_id text not null,
      operation_id text not null references operations,
      release integer not null,
      source text not null check (source in ('git', 'upload')),
      revision text not null,       -- 40 hex: the commit, or the start of the archive's sha256
      segment_id text,              -- the archive in the object store
      path text,
      state text not null default 'pending'
        check (state in ('pending', 'clone', 'commit', 'restarting', 'success', 'error')),
      code text,
      message text,
      created_at timestamptz not null default now()
    );
    create index deployments_app on deployments (app_id, created_at desc);

    create table deployment_events (
      id bigint generated always as identity primary key,
      deployment_id text not null references deployments on delete cascade,
      state text not null,
      details jsonb not null default '{}',
      at timestamptz not null default now(),
      unique (deployment_id, state)
    );

    create table deployment_logs (
      deployment_id text not null references deployments on delete cascade,
      seq integer not null,
      text text not null,
      primary key (deployment_id, seq)
    );

    -- One row per stored body, drawn before its bytes: what nobody refers to is swept without listing the store.
    create table segments (
      id text primary key,
      state text not null default 'drawn' check (state in ('drawn', 'stored', 'dying')),
      refs integer not null default 0,
      size bigint,
      sha256 text,
      drawn_at timestamptz not null default now(),
      zero_since timestamptz
    );
    create index segments_sweep on segments (state, drawn_at) where refs = 0;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
