import type { Knex } from 'knex'

/** Signing in with a code by mail, and keys that a person grants to a program in a browser. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The code itself stands nowhere: it derives from the id.
    create table sign_ins (
      id text primary key,
      user_id text references users on delete cascade,  -- null: nobody has this address, and nobody is told so
      attempts integer not null default 0,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,
      used_at timestamptz
    );
    create index sign_ins_user on sign_ins (user_id, created_at);
    create index sign_ins_end on sign_ins (expires_at);

    create table authorizations (
      code_hash bytea primary key,
      display text not null,        -- shown by the program and by the page, for the person to compare
      client text not null,
      redirect_uri text not null,
      scopes text[] not null,
      challenge text not null,      -- SHA-256 of the verifier, base64url
      user_id text references users on delete cascade,
      decision text check (decision in ('granted', 'denied')),
      attempts integer not null default 0,
      key_id text references api_keys on delete cascade,
      claimed_at timestamptz,
      expires_at timestamptz not null
    );
    create index authorizations_end on authorizations (expires_at);

    alter table api_keys add column granted_to text;  -- the program that a person granted it to
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
