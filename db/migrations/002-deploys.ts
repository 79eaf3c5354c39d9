import type { Knex } from 'knex'

/** Git webhooks, links to the git-provider app, deliveries, and what deployments of them add. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- At most one webhook of an application. The address is looked up by its hash and kept encrypted for showing.
    create table git_webhooks (
      id text primary key,
      app_id text not null unique references apps on delete cascade,
      address_hash bytea not null unique,
      address_sealed bytea not null,
      token_sealed bytea not null,
      secret_sealed bytea,
      -- The token goes only to the host of the first accepted push.
      token_host text,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );

    -- Installations of the git-provider app by the accounts that proved, at the provider, that they may see them.
    create table git_installations (
      user_id text not null references users on delete cascade,
      id bigint not null,           -- the provider's id
      account text not null,        -- login that the app is installed for: a person or an organization
      member text not null,         -- login of the person who connected it
      member_id bigint not null,    -- logins change hands, numbers do not
      created_at timestamptz not null default now(),
      primary key (user_id, id)
    );
    create index git_installations_id on git_installations (id);

    -- One repository and branch links to one application platform-wide.
    create table git_links (
      app_id text primary key references apps on delete cascade,
      user_id text not null,        -- who linked, by whose installation it is fetched
      installation_id bigint not null,
      repository_id bigint not null,
      full_name text not null,
      branch text not null,
      clone_url text not null,
      created_at timestamptz not null default now(),
      foreign key (user_id, installation_id) references git_installations on delete cascade,
      unique (repository_id, branch)
    );
    create index git_links_installation on git_links (installation_id);

    create table webhook_deliveries (
      id text primary key,
      app_id text not null,         -- kept after the application for the 7 days of a delivery
      source text not null,         -- 'webhook:<id>' or 'app'
      delivery_id text not null,
      provider text not null,
      event text not null,
      branch text,
      commit text,
      verdict text not null check (verdict in ('queued', 'duplicate', 'superseded', 'ignored', 'refused')),
      reply_status integer not null,
      reply_text text not null,
      deployment_id text,
      received_at timestamptz not null default now()
    );
    -- Only stored deploys are remembered as seen: after a failed attempt the same id is accepted.
    create unique index webhook_deliveries_once on webhook_deliveries (source, delivery_id, app_id)
      where verdict in ('queued', 'superseded');
    create index webhook_deliveries_app on webhook_deliveries (app_id, received_at desc);
    create index webhook_deliveries_deployment on webhook_deliveries (deployment_id);
    create index webhook_deliveries_source on webhook_deliveries (source, received_at desc);
    create index deployments_operation on deployments (operation_id);

    alter table deployments
      add column owner_id text,
      add column clone_url text,
      add column branch text,
      add column superseded_by text references deployments,
      -- webhook, app (the git-provider app), upload
      add column trigger text not null default 'upload' check (trigger in ('upload', 'webhook', 'app')),
      add column filename text,     -- of an upload that is no archive: lands at path/<filename>
      add column restart boolean not null default true,
      add column config jsonb,        -- the configuration file that the deployment brought, parsed
      add column config_before jsonb, -- what it replaced, until the release serves
      add column waiting_for text,  -- what holds a deployment that waits, in words
      add column finished_at timestamptz;

    -- Acts of people on operations: who, when, what.
    create table operation_acts (
      id bigint generated always as identity primary key,
      operation_id text not null references operations,
      actor text not null,
      act text not null check (act in ('retry', 'cancel')),
      at timestamptz not null default now()
    );

    alter table operations
      add column cancel_requested_at timestamptz,
      add column cancel_requested_by text,
      add column retry_of text references operations;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
