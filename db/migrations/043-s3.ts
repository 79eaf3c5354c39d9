import type { Knex } from 'knex'

/** What the S3 wire stores in addition to the Blob API, and buckets that only it has. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- In the order of running transactions, and never waiting for long: what waits for these locks makes all others wait behind it.
    set local lock_timeout = '2s';
    do $$ begin
      for attempt in 1..150 loop
        begin
          lock table users in share row exclusive mode;
          lock table uploads, upload_parts, objects, object_parts in access exclusive mode;
          return;
        exception when lock_not_available then perform pg_sleep(2);
        end;
      end loop;
      raise exception 'blob storage was in use for 10 minutes: end what reads it for long, such as a backup, and try again';
    end $$;

    -- Headers, checksum and tags of the S3 wire (policy/s3/s3-facts.ts); null = written by the Blob API.
    alter table objects add column s3 jsonb;
    -- Extra buckets are stored as 'x-' and their name. Rows of before had three buckets only: they need no check.
    alter table objects drop constraint objects_bucket_check;
    alter table objects add constraint objects_bucket_check
      check (bucket in ('public', 'private', 'legacy') or bucket like 'x-%') not valid;
    alter table object_parts add column checksum text;   -- base64, of the object's algorithm

    -- Uploads of one wire are not continued by the other, as their parts have other limits.
    alter table uploads add column wire text not null default 'blob' check (wire in ('blob', 's3'));
    alter table uploads add column s3 jsonb;
    alter table uploads add column result jsonb;         -- of a completion, for the client that repeats it
    create index uploads_s3 on uploads (owner_id, bucket, key, id) where state = 'open' and wire = 's3';
    alter table upload_parts add column checksum text;

    create table s3_buckets (
      owner_id text not null references users,
      name text collate "C" not null,
      created_at timestamptz not null default now(),
      primary key (owner_id, name)
    );
    -- A foreign key for the rows of extra buckets only: whoever writes into one holds it until the commit, so none is deleted meanwhile.
    create function hold_s3_bucket() returns trigger language plpgsql as $$
    begin
      perform 1 from s3_buckets where owner_id = new.owner_id and name = substr(new.bucket, 3) for key share;
      if not found then
        raise exception 'the bucket % does not exist', new.bucket using errcode = 'foreign_key_violation';
      end if;
      return new;
    end $$;
    create trigger hold_s3_bucket before insert on objects
      for each row when (new.bucket like 'x-%') execute function hold_s3_bucket();
    create trigger hold_s3_bucket before insert on uploads
      for each row when (new.bucket like 'x-%') execute function hold_s3_bucket();
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
