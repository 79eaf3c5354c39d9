import type { Knex } from 'knex'

/** The version of the engine that a snapshot of a database is from: an older one cannot read it. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Never waiting for long: what waits for this lock makes all others wait behind it.
    set local lock_timeout = '2s';
    do $$ begin
      for attempt in 1..150 loop
        begin
          lock table snapshots in access exclusive mode;
          return;
        exception when lock_not_available then perform pg_sleep(2);
        end;
      end loop;
      raise exception 'snapshots were in use for 10 minutes: end what reads them for long, such as a backup, and try again';
    end $$;

    -- Null: of an application, or from before this column was there.
    alter table snapshots add column engine_version text;
  `)
}

export async function down(): Promise<void> {
  throw new Error('Migrations only go forward; restore a backup to go back.')
}
