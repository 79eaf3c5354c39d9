import type { Knex } from 'knex'

/** Workspaces, who is in them, which applications are shared there, and codes to invite with. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table workspaces (
      id text primary key check (id ~ '^([0-9a-f]{40}|[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15})$'),
      owner_id text not null references users on delete cascade,
      name text not null,
      created_at timestamptz not null default now()
    );
    create index workspaces_owner on workspaces (owner_id);

    -- Those beside the owner, whose role follows from the row above.
    create table workspace_members (
      workspace_id text not null references workspaces on delete cascade,
      user_id text not null references users on delete cascade,
      role text not null check (role in ('view', 'manager', 'maintain', 'admin')),
      joined_at timestamptz not null default now(),
      primary key (workspace_id, user_id)
    );
    create index workspace_members_user on workspace_members (user_id);

    -- An application belongs to the owner of every workspace that it is shared in.
    create table workspace_apps (
      workspace_id text not null references workspaces on delete cascade,
      app_id text not null references apps on delete cascade,
      shared_at timestamptz not null default now(),
      primary key (app_id, workspace_id)
    );
    create index workspace_apps_workspace on workspace_apps (workspace_id);

    -- One code an account, the newest.
    create table workspace_invites (
      user_id text primary key references users on delete cascade,
      hash bytea not null unique,   -- SHA-256 of the code
      expires_at timestamptz not null
    );
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
