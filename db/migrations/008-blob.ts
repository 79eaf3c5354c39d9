import type { Knex } from 'knex'

/** Blob storage: objects, their manifests, open uploads, links, rules, upload tokens, usage and receipts. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Limits a key to names that begin with one of these; null = every name of the account.
    alter table api_keys add column prefixes text[];
    -- The name of its S3 pair, by which a signed request finds it (policy/objects/s3-credentials).
    create unique index api_keys_s3 on api_keys (('BRTH' || upper(left(md5('s3/' || id), 16))));

    alter table segments add column md5 text;
    alter table segments add column crc32 bigint;

    -- Names are ordered by their bytes, as every listing tells them. 'key' is what follows the bucket's and the account's part of an id.
    create table objects (
      owner_id text not null references users,
      bucket text not null check (bucket in ('public', 'private', 'legacy')),
      key text collate "C" not null,
      generation text not null unique,       -- new with every change of content; its manifest is below this
      birth text not null,                   -- new when the name comes into being; links hold on to it
      size bigint not null,
      content_type text not null,
      etag text not null,                    -- hex, without quotes
      sha256 text,                           -- null where a body came in parts
      cache_control text,
      content_disposition text,              -- 'inline' or 'attachment'
      original_name text,
      metadata jsonb not null default '{}',
      expires_at timestamptz,
      created_at timestamptz not null default now(),
      primary key (owner_id, bucket, key)
    );
    create index objects_expiry on objects (expires_at) where expires_at is not null;

    -- Written and removed with its object in one statement or transaction; no foreign key, whose cascade would follow an overwrite.
    create table object_parts (
      generation text not null,
      position integer not null,
      segment_id text not null references segments,
      starts_at bigint not null,             -- within the object
      segment_from bigint not null default 0,
      length bigint not null,
      md5 text,                              -- of a part of an upload in parts
      primary key (generation, position)
    );
    create index object_parts_segment on object_parts (segment_id);

    create table uploads (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      owner_id text not null references users,
      state text not null default 'open' check (state in ('open', 'completed', 'aborted')),
      bucket text not null,
      key text collate "C" not null,
      overwrite boolean not null default false,
      content_type text not null,
      cache_control text,
      content_disposition text,
      original_name text,
      metadata jsonb not null default '{}',
      expires_at timestamptz,                -- of the object it will be
      max_parts integer not null,
      max_bytes bigint not null,
      upload_token_id text,                  -- the token that opened it may go on with it
      why text,                              -- of an abort: 'asked', 'idle'
      created_at timestamptz not null default now(),
      last_activity_at timestamptz not null default now(),
      ended_at timestamptz
    );
    create index uploads_open on uploads (owner_id, created_at) where state = 'open';
    create index uploads_idle on uploads (last_activity_at) where state = 'open';

    create table upload_parts (
      upload_id text not null references uploads on delete cascade,
      part integer not null,
      segment_id text not null references segments,
      size bigint not null,
      md5 text not null,
      created_at timestamptz not null default now(),
      primary key (upload_id, part)
    );
    create index upload_parts_segment on upload_parts (segment_id);

    -- What is under way at this moment, of which only so much may be: a place each, which a killed process gives back by time.
    -- Not logged: a crash of the database ends everything under way anyway.
    create unlogged table blob_leases (
      subject text not null,                 -- 'upload/<account>', 'part/<account>'
      place integer not null,
      holder text not null,
      expires_at timestamptz not null,
      primary key (subject, place)
    );

    create table shares (
      id text primary key,
      owner_id text not null references users,
      bucket text not null,
      key text collate "C" not null,
      birth text not null,
      max_downloads integer,
      remaining integer,                     -- null = no cap
      password_hash text,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,
      revoked_at timestamptz
    );
    create index shares_owner on shares (owner_id, created_at) where revoked_at is null;

    create table upload_tokens (
      id text primary key,
      owner_id text not null references users,
      credential_id text not null,           -- of the key or session that minted it: it dies with it
      hash bytea not null unique,
      pins jsonb not null,
      max_uses integer not null,
      used integer not null default 0,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null
    );
    create index upload_tokens_end on upload_tokens (expires_at);

    create table blob_rules (
      owner_id text not null references users,
      prefix text collate "C" not null,
      private boolean,
      expire text,
      max_size bigint,
      extensions text[],
      cache_control text,
      delete_after_days integer,
      created_at timestamptz not null default now(),
      active_from timestamptz,
      primary key (owner_id, prefix)
    );

    -- Usage is the folded sum plus what was not folded yet: no row is shared by all uploads of an account.
    create table blob_usage (
      owner_id text primary key references users,
      objects bigint not null default 0,
      bytes bigint not null default 0,
      sampled_at timestamptz not null default now() -- up to here it stands in blob_usage_days
    );
    create table usage_deltas (
      id bigint generated always as identity primary key,
      owner_id text not null,
      objects integer not null,
      bytes bigint not null,
      lease_id text,                         -- of the lease that 'leased' was taken from
      leased bigint not null default 0,
      at timestamptz not null default now()
    );
    create index usage_deltas_owner on usage_deltas (owner_id);
    create table quota_leases (
      id text primary key,
      owner_id text not null references users,
      bytes bigint not null,
      expires_at timestamptz not null
    );
    create index quota_leases_end on quota_leases (expires_at);
    create index quota_leases_owner on quota_leases (owner_id);

    -- Bytes times the seconds that they were stored, by day (UTC), for the average of a month.
    create table blob_usage_days (
      owner_id text not null references users,
      day date not null,
      byte_seconds numeric not null default 0,
      primary key (owner_id, day)
    );

    -- What the platform removed, or put right, by itself: one row per run, and one line per thing with the look that found it gone.
    create table blob_receipts (
      id text primary key check (id ~ '^[0-9a-f]{32}$'),
      kind text not null,                    -- 'reclaim', 'expiry', 'rules', 'sweep', 'recount', 'sample'
      began_at timestamptz not null default now(),
      ended_at timestamptz,
      failure text
    );
    create index blob_receipts_newest on blob_receipts (began_at desc);
    create table blob_receipt_lines (
      id bigint generated always as identity primary key,
      receipt_id text not null references blob_receipts on delete cascade,
      owner_id text,                         -- null of a body that nobody refers to
      subject text not null,                 -- id of the object, the upload or the body
      why text not null,
      bytes bigint not null default 0,
      generation text,                       -- of an object, which the look asks for
      segments text[] not null default '{}', -- whose bodies a sweep takes later
      at timestamptz not null default now(),
      proof text,                            -- what the look found
      proved_at timestamptz
    );
    create index blob_receipt_lines_receipt on blob_receipt_lines (receipt_id, id);
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
